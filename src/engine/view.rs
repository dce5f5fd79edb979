//! What can be seen of an engine.
//!
//! *Owner*: any thread, while everything runs; `check` alone wants the engine at rest.
//!
//! *Tested by*: `tests/stats.rs`, `tests/snapshot.rs`, `tests/engine_oracle.rs`.

use std::time::Instant;

use crate::entry;
use crate::shard::{Counted, Violation};

use super::driving::is_inside;
use super::{Snapshot, Stats, TypedEngine};

// === impl TypedEngine: looking on ===

impl<T: Send + 'static> TypedEngine<T> {
    /// How many timers are pending. Sums up what each thread has counted: exact when no thread
    /// is inside a call.
    pub fn len(&self) -> usize {
        self.core().pool.tallies.pending() as usize
    }

    /// Whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The engine's time.
    pub fn now(&self) -> Instant {
        let clock = &self.core().clock;
        clock.instant_at(clock.now_ns()).unwrap_or_else(Instant::now)
    }

    /// How many shards the engine has.
    pub fn shards(&self) -> usize {
        self.core().shards.len()
    }

    /// What the engine has counted so far. Takes no lock.
    pub fn stats(&self) -> Stats {
        Stats::of(self.core())
    }

    /// What is pending, found by walking every bucket while everything runs. Takes no lock and
    /// holds nobody up. O(n).
    ///
    /// Weakly consistent: what is pending throughout is in it, unless it was being moved to
    /// another bucket; what comes or goes meanwhile may be in it or not.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.core(), &entry::read())
    }

    /// Walks every invariant of the engine: for tests and fuzzing, while no other thread uses
    /// the engine. O(n).
    ///
    /// # Errors
    /// What does not hold.
    ///
    /// # Panics
    /// The call comes from one of the engine's own tasks.
    pub fn check(&self) -> Result<(), Violation> {
        let core = self.core();
        assert!(!is_inside(core.id()), "a task cannot check its own engine");
        let mut sum = Counted::default();
        let mut is_closed = false;
        for shard in &core.shards {
            let mut owner = shard.owner().lock().expect("a turn does not panic");
            is_closed |= owner.is_closed();
            let counted = shard.check(&mut owner, core.now())?;
            sum.pending += counted.pending;
            sum.kept += counted.kept;
            sum.dead += counted.dead;
        }
        if !is_closed {
            Violation::unless_equal("pending timers", sum.pending, self.len() as u64)?;
            Violation::unless_equal("dead entries", sum.dead, core.pool.tallies.dead())?;
        }
        Ok(())
    }
}
