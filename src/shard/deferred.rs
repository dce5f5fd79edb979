//! What a call leaves to be done when nothing is lent any more: whatever may call a hook.
//!
//! A keeper is lent for the time of a call, and a hook is foreign code. So a keeper's calls hand
//! out what is left to do as a value, and whoever lent the keeper does it after it was given back.
//! Until then what was filed stays announced by its notice alone: nobody relies on its bucket.
//!
//! *Orderings*: BUCKET-ARM, DOORBELL.
//!
//! *Tested by*: `tests/hooks.rs`, `loom-tests/tests/{doorbell,bucket_arm}.rs`.

use crate::sync::IS_CHECKED;
use crate::time::Place;

use super::{Pool, Shard};

/// Hooks to be called and sweeps to be asked for.
#[must_use = "a hook waits to be called"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred {
    /// A shard whose hook is to be called, and the place of an entry to announce with that.
    hook: Option<(u32, Option<Place>)>,
    /// A shard ought to sweep.
    sweep: bool,
}

// === impl Deferred ===

impl Deferred {
    /// Nothing is left to do.
    pub const NOTHING: Deferred = Deferred { hook: None, sweep: false };

    /// The hook of shard number `shard` is to be called, and then `place` to be published, if there
    /// is one.
    pub(super) fn hook(shard: u32, place: Option<Place>) -> Deferred {
        Deferred { hook: Some((shard, place)), sweep: false }
    }

    /// Whether shards are to be asked to sweep.
    #[inline]
    pub(super) fn sweep(sweep: bool) -> Deferred {
        Deferred { hook: None, sweep }
    }

    /// As well as what is in `self`, shards are to be asked to sweep if `other` says so.
    pub(super) fn and_sweep(self, other: Deferred) -> Deferred {
        Deferred { sweep: self.sweep || other.sweep, ..self }
    }

    /// Whether nothing is left to do.
    #[inline]
    pub fn is_nothing(self) -> bool {
        self.hook.is_none() && !self.sweep
    }

    /// Does it, for an engine with these shards. To be called where foreign code may run.
    #[cold]
    pub fn run<T>(self, shards: &[Shard<T>], pool: &Pool<T>) {
        match self.hook {
            Some((shard, Some(place))) => shards[shard as usize].end_announcement(place),
            Some((shard, None)) => _ = shards[shard as usize].doorbell().call_hook(),
            None => {}
        }
        if self.sweep {
            // All that have dead entries: those too that the living outnumbered until now.
            let littered = shards.iter().filter(|shard| pool.has_unswept(shard.index()));
            littered.for_each(Shard::ask_for_sweep);
            // The reapers may be busy, or blocked.
            let most = shards.iter().max_by_key(|shard| pool.dead_in(shard.index()));
            // Of helpers the models have one of their own.
            most.into_iter().filter(|_| !IS_CHECKED).for_each(|shard| shard.help_sweep(pool));
        }
    }
}
