//! A turn: everything that a reaper does, without the thread.
//!
//! ```text
//! begin(now)        the shard's clock moves on, before any bucket is opened
//! read_notices      buckets that producers armed go on the agenda
//! open_due → flush  each due bucket, in order of expiration: fire, re-file, bury the dead
//! hand_over         what fired, in batches
//! run_errand        nothing is due: cascade ahead or sweep, a chunk of it
//! next_wake         when to come back
//! ```
//!
//! *Owner*: the holder of the shard's lock. *Orderings*: BUCKET-ARM, through the shard's steps.

use std::fmt;

use crate::dispatch::Handler;
use crate::shard::{BATCH, Count, Owner, Pool, Shard};
use crate::time::{Clock, Scale, Tick};

use super::Observer;

/// A shard and what its turns need besides.
pub struct Reaper<'a, T> {
    /// The shard that it serves.
    pub shard: &'a Shard<T>,
    /// What the shard shares with others.
    pub pool: &'a Pool<T>,
    /// Who takes what is due.
    pub handler: &'a dyn Handler<T>,
    /// The engine's clock.
    pub clock: &'a Clock,
    /// The engine's tick.
    pub scale: Scale,
    /// Who looks on.
    pub observer: &'a Observer,
}

/// What a turn did, and when the next one is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Payloads handed over.
    pub fired: usize,
    /// There is more to do at once.
    pub busy: bool,
    /// When the shard wants its next turn; [`Tick::NEVER`]: when the doorbell rings.
    pub next: Tick,
}

// === impl Reaper ===

impl<T> Reaper<'_, T> {
    /// Runs a turn at `now` that fires at most `max_fired` timers.
    ///
    /// What its own tasks schedule for at once fires in a later turn, so that a turn ends, unless
    /// the bucket of the present is still to be opened: that happens once in a turn.
    pub fn turn(&self, owner: &mut Owner<T>, now: Tick, max_fired: usize) -> Report {
        let now = self.shard.begin(now);
        self.shard.read_notices(owner);
        let mut fired = 0;
        let mut opened = None;
        while fired + owner.batch().len() < max_fired {
            if !self.shard.is_open(owner) && !self.shard.open_due(owner, now) {
                break;
            }
            if owner.batch().is_empty() {
                opened = owner.opened();
            }
            self.shard.flush(owner, self.pool, BATCH.min(max_fired - fired));
            if owner.batch().len() >= BATCH {
                fired += self.hand_over(owner, opened);
            }
        }
        fired += self.hand_over(owner, opened);
        self.report(owner, now, fired)
    }

    /// What is left after a turn: more that is due, an errand, or a sleep.
    fn report(&self, owner: &mut Owner<T>, now: Tick, fired: usize) -> Report {
        self.shard.read_notices(owner);
        let is_due = self.shard.is_due(owner, now);
        let busy = is_due || self.shard.run_errand(owner, self.pool, now);
        let next = if busy { now } else { self.shard.next_wake(owner, self.pool) };
        if !is_due && self.observer.is_saturated() {
            self.look_whether_caught_up(owner);
        }
        Report { fired, busy, next }
    }

    /// Hands over what was collected. The first of it comes from a bucket that was to be opened
    /// at `opened`.
    fn hand_over(&self, owner: &mut Owner<T>, opened: Option<Tick>) -> usize {
        let fired = owner.batch().len();
        if fired > 0 {
            owner.count(Count::Fired, fired as u64);
            self.pool.discharge(fired as u64);
            let handed = super::handover::hand_over(self, owner.batch(), opened);
            owner.count(Count::Panicked, handed.panicked);
            if handed.slow > 0 {
                owner.count(Count::Slow, handed.slow);
            }
            if handed.saturates {
                owner.count(Count::Saturated, 1);
            }
        }
        fired
    }

    /// The time has gone on during the turn: only if nothing has become due meanwhile either is
    /// the shard on time again.
    #[cold]
    fn look_whether_caught_up(&self, owner: &Owner<T>) {
        let now_ns = self.clock.now_ns();
        if owner.next_opening() > self.scale.floor(now_ns) {
            self.observer.caught_up(now_ns);
        }
    }
}

impl<T> fmt::Debug for Reaper<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaper").field("shard", &self.shard).finish_non_exhaustive()
    }
}
