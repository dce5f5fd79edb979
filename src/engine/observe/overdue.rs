//! What is overdue in an engine, and which tasks are stuck.
//!
//! *Owner*: any thread, at any time.
//!
//! *Tested by*: `tests/races/engine/overdue.rs`.

use std::time::Duration;

use crate::engine::core::Core;
use crate::entry;
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
    /// The age of the oldest timer that is due and was not handed over, at least. Zero if none was
    /// found, which may be so as well where thousands of others, most of them cancelled or moved,
    /// are filed beside it.
    pub oldest: Duration,
    /// How many shards have timers that are due and were not handed over.
    pub shards: usize,
    /// The tasks that are stuck, in no order. For a task that is not the first of its batch,
    /// `since` is when it was first seen, which may be later than its start. (Where no thread
    /// watches, as in an engine that its caller drives, a task that is not the first of its batch
    /// is found by the second of two looks that are so far apart.)
    pub stuck: Vec<StuckTask>,
}

// === impl Overdue ===

impl Overdue {
    pub(super) fn of<T>(core: &Core<T>) -> Overdue {
        let mut stuck = Vec::new();
        let (oldest, shards) = core.backlog(|shard, server, since_ns| {
            stuck.push(core.stuck_task(shard, server, since_ns));
        });
        Overdue { oldest, shards, stuck }
    }
}

impl<T> Core<T> {
    /// The age of the oldest timer that is due, and how many shards have one; and calls `stuck` for
    /// each task that is stuck, with its shard, the number of the thread that serves the shard, and
    /// since when.
    pub(super) fn backlog(&self, mut stuck: impl FnMut(usize, usize, u64)) -> (Duration, usize) {
        let (mut oldest, mut shards) = (Duration::ZERO, 0);
        let mut seen = Vec::new();
        for shard in 0..self.shards.len() {
            let server = self.server(shard);
            let (found, in_hand_ns) = self.ending.look(shard, &self.clock, self.stuck_after_ns);
            match found {
                Found::Stuck(_, since_ns) if self.server(shard) == server => {
                    stuck(shard, server, since_ns);
                    seen.push((shard, server));
                }
                _ => {}
            }
            if let Some(age) = self.age_in(shard, in_hand_ns) {
                (oldest, shards) = (oldest.max(age), shards + 1);
            }
        }
        // After that: a task that is taken over meanwhile is among these, or was seen before.
        for (server, shard, since_ns) in self.stuck.iter() {
            if !seen.contains(&(shard, server)) {
                stuck(shard, server, since_ns);
            }
        }
        (oldest, shards)
    }

    /// The age of the oldest timer that is due in a shard of the engine, where payloads have waited
    /// in hand since `in_hand_ns`.
    fn age_in(&self, index: usize, in_hand_ns: Option<u64>) -> Option<Duration> {
        let now_ns = self.clock.now_ns();
        let oldest = self.shards[index].oldest_due(&entry::read(), self.scale.floor(now_ns));
        let filed_ns = oldest.and_then(|oldest| self.scale.start_ns(oldest));
        let since_ns = filed_ns.into_iter().chain(in_hand_ns).min()?;
        Some(Duration::from_nanos(now_ns.saturating_sub(since_ns)))
    }
}
