//! How many engines of the process were told to stop. A thread looks for those among the engines
//! that it knows only when another one was counted.
//!
//! *Owner*: any thread.
//!
//! *Orderings*: STOP. An engine is counted after it says of itself that it is stopping.
//!
//! *Tested by*: `loom-tests/tests/ending.rs`, `tests/alone/freed_early.rs`.

use crate::{AtomicU64, Ordering};

/// A count of stops.
#[derive(Debug)]
pub struct Stops(AtomicU64);

// === impl Stops ===

impl Stops {
    /// None so far.
    #[cfg(not(any(loom, shuttle)))]
    pub const fn none() -> Stops {
        Stops(AtomicU64::new(0))
    }

    /// None so far. (The model checker's atomics have no const constructor.)
    #[cfg(any(loom, shuttle))]
    pub fn none() -> Stops {
        Stops(AtomicU64::new(0))
    }

    /// Counts an engine that says of itself that it is stopping.
    pub fn count(&self) {
        // ORDER(STOP): Release - pairs with the Acquire in `so_far`: a thread that sees the count
        // sees that the engine is stopping.
        self.0.fetch_add(1, Ordering::Release);
    }

    /// How many were counted.
    pub fn so_far(&self) -> u64 {
        // ORDER(STOP): Acquire - pairs with the Release in `count`.
        self.0.load(Ordering::Acquire)
    }
}
