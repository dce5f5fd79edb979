//! Deferred work: everything that may call a hook waits until the producer is no longer lent.
//!
//! A producer is lent for the duration of a call, and a hook is foreign code. So a producer records
//! the remaining work (`Chores`), and its calls return whether there is any (`Deferred`). The
//! lender takes the chores, gives the producer back, and then runs them. Until then a filed entry
//! is announced by its notice alone: no producer relies on its bucket.
//!
//! *Orderings*: BUCKET-ARM, DOORBELL.
//!
//! *Tested by*: the unit tests, `tests/races/engine/hooks.rs`,
//! `loom-tests/tests/{doorbell,bucket_arm}.rs`.

use crate::memory::Shared;
use crate::shard::Shard;
use crate::time::{Place, Tick};

/// Whether a call has deferred work. If so, the caller takes the producer's chores, gives the
/// producer back, and runs them.
///
/// A `usize`, not a `bool`: with a byte here, the compiler copies the payload of the `Result` in
/// pieces of odd sizes, and the next load of it stalls.
#[must_use = "a hook waits to be called"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred(usize);

/// Hooks to call and sweeps to ask for.
#[must_use = "a hook waits to be called"]
#[derive(Debug, Default)]
pub struct Chores {
    /// A shard whose hook is to be called, and the place of an entry to announce afterwards.
    hook: Option<(u32, Option<Place>)>,
    /// Whether to ask shards to sweep.
    sweep: bool,
}

// === impl Deferred ===

impl Deferred {
    /// Nothing is left to do.
    pub const NOTHING: Deferred = Deferred(0);

    /// Whether nothing is left to do.
    #[inline]
    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Combines two parts of a call.
    #[inline]
    pub(super) fn or(self, other: Deferred) -> Deferred {
        Deferred(self.0 | other.0)
    }
}

// === impl Chores ===

impl Chores {
    /// Defers the call of the hook of shard number `shard`, and then the publication of `place`, if
    /// there is one.
    #[cold]
    pub(super) fn call_hook(&mut self, shard: u32, place: Option<Place>) -> Deferred {
        self.hook = Some((shard, place));
        Deferred(1)
    }

    /// Defers a request to the shards to sweep.
    #[cold]
    pub(super) fn sweep(&mut self) -> Deferred {
        self.sweep = true;
        Deferred(1)
    }

    /// Runs the chores for an engine with these shards. Call it only where foreign code may run.
    #[cold]
    pub fn run<T>(self, shards: &[Shard<T>], shared: &Shared<T>) {
        match self.hook {
            Some((shard, Some(place))) => shards[shard as usize].end_announcement(place),
            Some((shard, None)) => _ = shards[shard as usize].doorbell().call_hook(Tick::ZERO),
            None => {}
        }
        if self.sweep {
            // All shards with unswept entries, including those that were not worth a sweep until
            // now.
            let littered = shards.iter().filter(|shard| shared.balance.unswept(shard.index()) > 0);
            littered.for_each(Shard::ask_for_sweep);
        }
    }
}
