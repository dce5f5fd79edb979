//! What is overdue in an engine, and which tasks are stuck.
//!
//! *Owner*: any thread, at any time.
//!
//! *Tested by*: `tests/races/overdue.rs`.

use std::time::Duration;

use crate::engine::core::Core;
use crate::reaper::{Found, StuckTask};
use crate::sync::{Counter, Ordering, thread};

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
    /// `since` is when it was first seen, which may be later than its start. A task may be missing
    /// if the system suspends the watcher just while it looks at that task.
    pub stuck: Vec<StuckTask>,
}

/// What the last look into a shard has found. A shard that a thread serves is not looked into all
/// the time, since its reaper would wait.
#[derive(Debug)]
pub(in crate::engine) struct LastLook {
    /// When it was begun.
    at_ns: Counter,
    /// Since when a timer is due, or [`NONE_NS`].
    since_ns: Counter,
    /// Which look has found that: when it was begun.
    found_at_ns: Counter,
}

const NONE_NS: u64 = u64::MAX;

/// Between two looks into one shard.
const LOOK_EVERY_NS: u64 = 1_000_000;

/// How often a look gives way to another thread that looks into the same shard, which takes less
/// than a microsecond unless the system suspends that thread. There is an end, since that thread
/// does not exist in the child of a fork.
const MAX_YIELDS: usize = 100;

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
    /// each task that is stuck, with its shard, with the number of the thread that runs it, if it
    /// is one of the engine's, and since when.
    pub(super) fn backlog(
        &self,
        mut stuck: impl FnMut(usize, Option<usize>, u64),
    ) -> (Duration, usize) {
        let lost = self.crew.iter().flat_map(|crew| crew.stuck().iter());
        lost.for_each(|(number, shard, since_ns)| stuck(shard, Some(number), since_ns));
        let ages = (0..self.shards.len()).filter_map(|shard| self.age_in(shard, &mut stuck));
        ages.fold((Duration::ZERO, 0), |(oldest, shards), age| (oldest.max(age), shards + 1))
    }

    /// The age of the oldest timer that is due in a shard of the engine; `stuck` as above.
    fn age_in(
        &self,
        index: usize,
        stuck: impl FnOnce(usize, Option<usize>, u64),
    ) -> Option<Duration> {
        let server = || self.crew.as_ref().map(|crew| crew.server(index));
        let before = server();
        let try_look = || self.ending.try_look(index, &self.clock, self.stuck_after_ns);
        let mut looked = try_look();
        for _ in 0..MAX_YIELDS {
            if looked.is_some() {
                break;
            }
            thread::yield_now();
            looked = try_look();
        }
        let (found, in_hand_ns) = looked.unwrap_or((Found::Idle, None));
        match found {
            Found::Stuck(_, since_ns) if server() == before => stuck(index, before, since_ns),
            _ => {}
        }
        let now_ns = self.clock.now_ns();
        let look = || {
            let oldest = self.shards[index].oldest_due(self.scale.floor(now_ns));
            oldest.and_then(|oldest| self.scale.start_ns(oldest))
        };
        let filed_ns = match self.crew {
            Some(_) => self.looks[index].or_look(now_ns, look),
            None => look(),
        };
        let since_ns = filed_ns.into_iter().chain(in_hand_ns).min()?;
        Some(Duration::from_nanos(now_ns.saturating_sub(since_ns)))
    }
}

// === impl LastLook ===

impl LastLook {
    /// None was taken yet.
    pub(in crate::engine) fn new() -> LastLook {
        let [at_ns, since_ns, found_at_ns] = [0, NONE_NS, 0].map(Counter::new);
        LastLook { at_ns, since_ns, found_at_ns }
    }

    /// What the last look has found, or this one, if it is time for one at `now_ns`. `None` as well
    /// while another thread looks.
    fn or_look(&self, now_ns: u64, look: impl FnOnce() -> Option<u64>) -> Option<u64> {
        // ORDER: Relaxed - the CAS decides who looks; the numbers are for those who look on.
        let at_ns = self.at_ns.load(Ordering::Relaxed);
        if now_ns >= at_ns.saturating_add(LOOK_EVERY_NS) {
            // ORDER: Relaxed - as above.
            let begun =
                self.at_ns.compare_exchange(at_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed);
            begun.ok()?;
            let found = look();
            // ORDER: Relaxed, then Release - pairs with the Acquire below: what it has found.
            self.since_ns.store(found.unwrap_or(NONE_NS), Ordering::Relaxed);
            self.found_at_ns.store(now_ns, Ordering::Release);
            return found;
        }
        // ORDER: Acquire - pairs with the Release above. (What an older look has found may be long
        // over.)
        let is_found = self.found_at_ns.load(Ordering::Acquire) == at_ns;
        // ORDER: Relaxed - ordered by the load before it.
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        (is_found && since_ns != NONE_NS).then_some(since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Option<u64> {
        unreachable!("it is not time")
    }

    #[test]
    fn a_look_counts_for_a_while_and_an_old_one_never() {
        let last = LastLook::new();
        assert_eq!(last.or_look(LOOK_EVERY_NS, || Some(7)), Some(7));
        assert_eq!(last.or_look(2 * LOOK_EVERY_NS - 1, never), Some(7));
        let later = 1_000 * LOOK_EVERY_NS;
        let meanwhile = || {
            assert_eq!(last.or_look(later, never), None, "the first one looks");
            assert_eq!(last.or_look(later - 1, never), None, "its clock was read before");
            Some(9)
        };
        assert_eq!(last.or_look(later, meanwhile), Some(9));
        assert_eq!(last.or_look(later, never), Some(9));
        assert_eq!(last.or_look(2 * later, || None), None);
        assert_eq!(last.or_look(2 * later, never), None);
    }
}
