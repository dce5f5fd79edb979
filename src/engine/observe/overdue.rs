//! What is overdue in an engine, and which tasks are stuck.
//!
//! *Owner*: any thread, at any time.
//!
//! *Tested by*: `tests/overdue.rs`.

use std::time::Duration;

use crate::engine::core::Core;
use crate::reaper::{Found, StuckTask};

/// The timers that are overdue when [`Engine::overdue`](crate::Engine::overdue) is called, and the
/// tasks that are stuck.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock, Overdue};
///
/// let clock = ManualClock::new();
/// let engine = Engine::builder().shards(1).manual_clock(&clock).build()?;
/// engine.schedule_detached(Duration::from_millis(10), || ())?;
/// clock.advance(Duration::from_millis(35));
/// // Its turn has not come yet.
/// let Overdue { oldest, shards, stuck, .. } = engine.overdue();
/// assert_eq!((oldest, shards, stuck.len()), (Duration::from_millis(25), 1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overdue {
    /// How long the timer has been due that has been so for longest, of those that have not been
    /// handed over, at least. Zero: none is due.
    pub oldest: Duration,
    /// The shards that have timers which are due.
    pub shards: usize,
    /// The tasks that are stuck, in no order. A task that is not the first of its batch counts from
    /// when it was first seen, by this or by the thread that looks for stuck tasks.
    pub stuck: Vec<StuckTask>,
}

/// The numbers of an [`Overdue`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    pub(super) oldest: Duration,
    pub(super) shards: usize,
}

// === impl Overdue ===

impl Overdue {
    pub(super) fn of<T>(core: &Core<T>) -> Overdue {
        let mut stuck = Vec::new();
        let Backlog { oldest, shards } = core.backlog(|shard, server, since_ns| {
            stuck.push(core.stuck_task(shard, server, since_ns));
        });
        Overdue { oldest, shards, stuck }
    }
}

impl<T> Core<T> {
    /// What is overdue; and calls `stuck` for each task that is stuck, with its shard, with the
    /// number of the thread that runs it, if it is one of the engine's, and since when.
    pub(super) fn backlog(&self, mut stuck: impl FnMut(usize, Option<usize>, u64)) -> Backlog {
        let mut backlog = Backlog::default();
        let lost = self.crew.iter().flat_map(|crew| crew.stuck().iter());
        lost.for_each(|(number, shard, since_ns)| stuck(shard, Some(number), since_ns));
        let mut first = 0;
        for core in self.both() {
            for (index, shard) in core.shards.iter().enumerate() {
                let now_ns = core.clock.now_ns();
                let looked = core.ending.try_look(index, now_ns, core.stuck_after_ns);
                let (found, in_hand_ns) = looked.unwrap_or((Found::Idle, None));
                if let Found::Stuck(_, since_ns) = found {
                    let server = self.crew.as_ref().map(|crew| crew.server(first + index));
                    stuck(first + index, server, since_ns);
                }
                let oldest = shard.oldest_due(core.scale.floor(now_ns));
                let filed_ns = oldest.and_then(|oldest| core.scale.start_ns(oldest));
                if let Some(since_ns) = filed_ns.into_iter().chain(in_hand_ns).min() {
                    let oldest = Duration::from_nanos(now_ns.saturating_sub(since_ns));
                    backlog.oldest = backlog.oldest.max(oldest);
                    backlog.shards += 1;
                }
            }
            first += core.shards.len();
        }
        backlog
    }
}
