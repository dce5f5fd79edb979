//! What a call leaves to be done when nothing is lent any more: whatever may call a hook.
//!
//! A producer is lent for the time of a call, and a hook is foreign code. So a producer writes down
//! what is left to do (`Chores`), and its calls say whether there is something (`Deferred`).
//! Whoever lent the producer takes the chores, gives the producer back, and then does them. Until then
//! what was filed stays announced by its notice alone: nobody relies on its bucket.
//!
//! *Orderings*: BUCKET-ARM, DOORBELL.
//!
//! *Tested by*: `tests/hooks.rs`, `loom-tests/tests/{doorbell,bucket_arm}.rs`.

use crate::memory::Shared;
use crate::shard::Shard;
use crate::sync::IS_CHECKED;
use crate::time::Place;

/// Whether a call has left something to be done: then the producer's chores are to be taken, and run
/// when it was given back.
#[must_use = "a hook waits to be called"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred(bool);

/// Hooks to be called and sweeps to be asked for.
#[must_use = "a hook waits to be called"]
#[derive(Debug, Default)]
pub struct Chores {
    /// A shard whose hook is to be called, and the place of an entry to announce with that.
    hook: Option<(u32, Option<Place>)>,
    /// A shard ought to sweep.
    sweep: bool,
}

// === impl Deferred ===

impl Deferred {
    /// Nothing is left to do.
    pub const NOTHING: Deferred = Deferred(false);

    /// Whether nothing is left to do.
    #[inline]
    pub fn is_nothing(self) -> bool {
        !self.0
    }

    /// What is left to do of two parts of a call.
    #[inline]
    pub(super) fn or(self, other: Deferred) -> Deferred {
        Deferred(self.0 || other.0)
    }
}

// === impl Chores ===

impl Chores {
    /// The hook of shard number `shard` is to be called, and then `place` to be published, if there
    /// is one.
    #[cold]
    pub(super) fn call_hook(&mut self, shard: u32, place: Option<Place>) -> Deferred {
        self.hook = Some((shard, place));
        Deferred(true)
    }

    /// Shards are to be asked to sweep.
    #[cold]
    pub(super) fn sweep(&mut self) -> Deferred {
        self.sweep = true;
        Deferred(true)
    }

    /// Does it, for an engine with these shards. To be called where foreign code may run.
    #[cold]
    pub fn run<T>(self, shards: &[Shard<T>], shared: &Shared<T>) {
        match self.hook {
            Some((shard, Some(place))) => shards[shard as usize].end_announcement(place),
            Some((shard, None)) => _ = shards[shard as usize].doorbell().call_hook(),
            None => {}
        }
        if self.sweep {
            // All that have dead entries: those too that the living outnumbered until now.
            let littered = shards.iter().filter(|shard| shared.has_unswept(shard.index()));
            littered.for_each(Shard::ask_for_sweep);
            // The reapers may be busy, or blocked.
            let most = shards.iter().max_by_key(|shard| shared.dead_in(shard.index()));
            // Of helpers the models have one of their own.
            most.into_iter().filter(|_| !IS_CHECKED).for_each(|shard| shard.help_sweep(shared));
        }
    }
}
