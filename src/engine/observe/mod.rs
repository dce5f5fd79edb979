//! Observability: the engine's methods for statistics, snapshots and metrics.
//!
//! - `stats`, `overdue` and `snapshot` have the types that the methods return, and print tables.
//! - `metrics` publishes the counters through the `metrics` facade.
//! - `json` is what serde writes of these types; `view` is an engine seen from outside.
//!
//! *Owner*: any thread, at any time; only `check` needs the engine at rest.
//!
//! *Tested by*: `tests/suite/observe/stats.rs`, `tests/races/engine/snapshot.rs`,
//! `tests/oracles/engine.rs`.

#[cfg(feature = "serde")]
mod json;
#[cfg(feature = "metrics")]
mod metrics;
mod overdue;
mod snapshot;
mod stats;
mod view;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::dispatch::works_for;
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::entry;
use crate::reaper::{Observer, Seen};
use crate::shard::{Counted, Violation};

#[cfg(feature = "serde")]
pub use json::Listing;
#[cfg(feature = "metrics")]
pub use metrics::{Metrics, MetricsPublisher};
pub use overdue::Overdue;
pub use snapshot::{DueCount, DueTime, LevelCount, PendingTimer, Snapshot};
pub use stats::Stats;
pub use view::View;

// === impl Engine: observability ===

impl<T: Send + 'static> Engine<T> {
    /// Returns how many timers are pending: the sum of what each thread has counted, which is exact
    /// when no thread is inside a call. A timer that is due counts until it is handed over: while a
    /// task runs, those behind it in its batch are still pending, though their handles say
    /// [`State::Fired`](crate::State::Fired). O(threads that use the engine at a time + shards).
    pub fn len(&self) -> usize {
        self.core().shared.all_counters.pending() as usize
    }

    /// Whether no timer is pending: as exact as [`len`](Engine::len), at the same cost.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the engine's time by its [`Clock`](crate::Clock), from which deadlines are computed.
    pub fn now(&self) -> Instant {
        self.core().instant_now()
    }

    /// Returns the engine's name: [`Builder::name`](crate::Builder::name).
    pub fn name(&self) -> &str {
        self.core().observers[0].name()
    }

    /// Returns the number of shards. Shards are numbered from zero.
    pub fn shards(&self) -> usize {
        self.core().shards.len()
    }

    /// Returns what the engine has counted so far, and what is [overdue](Engine::overdue). Waits
    /// for no lock. O(threads that use the engine at a time + shards): about 1 us, plus 0.1 us for
    /// each thread; and as much as `overdue` for shards that are behind.
    pub fn stats(&self) -> Stats {
        Stats::of(self.core())
    }

    /// Returns the histogram of lateness since the engine was built: upper bounds, at most 6.25 %
    /// too high, and how many timers were that late and not less. [`Stats::lateness`] has its
    /// percentiles. Waits for no lock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().shards(1).manual_clock(&clock).build()?;
    /// engine.schedule_detached(Duration::from_millis(5), || ())?;
    /// clock.advance(Duration::from_millis(8));
    /// engine.turn(0)?;
    /// let late: Vec<_> = engine.latenesses().into_iter().collect();
    /// assert!(matches!(&late[..], [(at_most, 1)] if *at_most >= Duration::from_millis(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn latenesses(&self) -> BTreeMap<Duration, u64> {
        latenesses(self.core())
    }

    /// Returns for how long timers have been due that were not handed over, and which tasks are
    /// stuck. Any thread may call this, whatever state the engine is in: it waits for no lock.
    ///
    /// A task is stuck when it keeps its shard for longer than
    /// [`Builder::takeover`](crate::Builder::takeover) allows (5 ms if that is `None`), or has done
    /// so until another thread of the engine took the shard over. A handler that waits for room, as
    /// it was told to, is not stuck. [`Builder::on_stuck`](crate::Builder::on_stuck) is called for
    /// each stuck task, with the exceptions named there.
    ///
    /// A timer that is being moved at that moment may be missed, and so may one that a reaper is
    /// about to fire.
    ///
    /// O(shards). For a shard that is behind, a look takes O(buckets that should have opened) more,
    /// and goes through 16,384 timers at most. No reaper waits for it.
    pub fn overdue(&self) -> Overdue {
        Overdue::of(self.core())
    }

    /// Returns the pending timers, found by walking every bucket while the engine goes on. Takes no
    /// lock and delays no thread. O(n + buckets in use), and a few times that while timers move
    /// from bucket to bucket. `Display` prints a table.
    ///
    /// The snapshot is weakly consistent. A timer that is pending throughout and is not reset
    /// meanwhile is in it once. A timer that is scheduled, ends or is reset meanwhile may be in it,
    /// not in it, or in it twice. One that a reaper has collected is not in it, though
    /// [`len`](Engine::len) counts it until it is handed over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Builder, ManualClock};
    /// # let handler = |batch: Batch<'_, u64>| drop(batch);
    /// let engine = Builder::new().manual_clock(&ManualClock::new()).build_with_handler(handler)?;
    /// for n in 1..=100 {
    ///     engine.schedule_detached(n * Duration::from_secs(60), 7)?;
    /// }
    /// let soon = engine.now() + Duration::from_secs(600);
    /// let snapshot = engine.snapshot();
    /// let deadlines = snapshot.iter().filter_map(|timer| timer.deadline);
    /// assert_eq!(deadlines.filter(|deadline| *deadline <= soon).count(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.core(), &entry::read())
    }

    /// Checks every invariant of the engine: for tests and fuzzing, while no other thread uses the
    /// engine. O(n).
    ///
    /// # Errors
    /// The invariant that does not hold.
    ///
    /// # Panics
    /// The call comes from one of the engine's own tasks, or from a child process.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Violation> {
        let core = self.core();
        assert!(!works_for(core.party()), "a task cannot check its own engine");
        assert!(!self.is_inherited(), "a child process cannot check its parent's engine");
        core.check()
    }
}

fn latenesses<T: Send + 'static>(core: &Core<T>) -> BTreeMap<Duration, u64> {
    let mut latenesses = BTreeMap::new();
    for lateness in core.observers.iter().map(Observer::lateness) {
        let count = |late, timers| *latenesses.entry(late).or_default() += timers;
        lateness.report_new(&mut Seen::nothing(), count);
    }
    latenesses
}

impl<T: Send + 'static> Core<T> {
    fn check(&self) -> Result<(), Violation> {
        let mut sum = Counted::default();
        let mut is_closed = false;
        for shard in &self.shards {
            let mut owner = shard.owner().lock().expect("nothing panics under this lock");
            is_closed |= owner.is_closed();
            let counted = shard.check(&mut owner, &self.shared, self.now())?;
            shard.publish_counts(&owner, &self.shared);
            if !is_closed {
                let published = self.shared.balance.dead_in(shard.index());
                Violation::unless_equal("dead entries of a shard", counted.dead, published)?;
            }
            sum.pending += counted.pending;
            sum.kept += counted.kept;
            sum.dead += counted.dead;
        }
        if !is_closed {
            let counted = self.shared.all_counters.pending();
            Violation::unless_equal("pending timers", sum.pending, counted)?;
            Violation::unless_equal("dead entries", sum.dead, self.shared.all_counters.dead())?;
            let (filed, most) = (sum.pending + sum.kept + sum.dead, self.shared.most_filed());
            Violation::unless_equal(
                "entries filed beyond the most",
                filed.saturating_sub(most),
                0,
            )?;
            Violation::unless_equal("living timers", sum.pending, self.shared.balanced_living())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::sync::thread;
    use crate::{Engine, ManualClock};

    #[test]
    fn ten_thousand_threads_that_came_and_went_leave_no_more_to_sum_up_than_a_few() {
        let engine = Engine::builder().manual_clock(&ManualClock::new()).shards(1).build().unwrap();
        for _ in 0..10_000 {
            let engine = engine.clone();
            let hour = Duration::from_secs(3600);
            let timer = move || assert!(engine.schedule(hour, || ()).unwrap().cancel());
            thread::spawn(timer).join().unwrap();
        }
        let sets = engine.core().shared.all_counters.writers();
        assert!(sets <= 32, "{sets} sets of counters for one thread at a time");
        assert_eq!(engine.stats().cancelled, 10_000);
        engine.check().unwrap();
    }
}
