//! Observability of a purgatory.
//!
//! *Tested by*: `tests/purgatory_keys.rs`, `tests/purgatory_oracle.rs`.

use std::hash::{BuildHasher, Hash};

use crate::engine::Engine;

use super::{Operation, Purgatory, Stats};

// === impl Purgatory: looking on ===

impl<K, O, S> Purgatory<K, O, S>
where
    K: Hash + Eq + Send + 'static,
    O: Operation,
    S: BuildHasher,
{
    /// How many operations wait. O(1), but not cheap: adds up 256 parts, each under its lock.
    pub fn len(&self) -> usize {
        self.inner.lists.stats().delayed
    }

    /// Whether no operation waits. Costs as much as [`len`](Purgatory::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many operations wait, each counted once for each of its keys. Costs as much as
    /// [`len`](Purgatory::len).
    pub fn watched(&self) -> usize {
        self.inner.lists.stats().watched
    }

    /// The statistics of the purgatory. Costs as much as [`len`](Purgatory::len).
    pub fn stats(&self) -> Stats {
        self.inner.lists.stats()
    }

    /// The engine that runs the timers.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Checks every invariant of the lists, for tests and fuzzing. O(n).
    ///
    /// # Panics
    /// An invariant does not hold.
    pub fn check(&self) {
        self.inner.lists.check();
    }
}
