//! A turn: everything that a reaper does, without the thread.
//!
//! ```text
//! begin(now)        the shard's clock moves on, before any bucket is opened
//! read_notices      buckets that producers armed go on the armed heap
//! open_due → flush  each due bucket, in order of expiration: fire, re-file, release the dead
//! hand_over         the fired payloads, in batches
//! run_background    a chunk of an eager cascade or of a sweep; only a share if buckets are due
//! collect           if there is no background work: free a few batches that no reader sees
//! next_wake         when to come back
//! ```
//!
//! *Owner*: the thread that holds the role of the shard (`ending`). It holds the shard's own lock
//! during the steps, and releases it while a batch is handed over; others may then close the shard
//! or sweep in it.
//!
//! *Orderings*: BUCKET-ARM, through the shard's steps.

use std::mem;

use crate::dispatch::{Handler, Queue};
use crate::entry;
use crate::memory::{Count, Shared};
use crate::shard::{BATCH, Owner, Shard};
use crate::sync::{AtomicBool, MutexGuard, Ordering};
use crate::time::{Clock, Scale, Tick};

use super::Observer;

/// A shard and everything else that its turns need.
pub struct Reaper<'a, T> {
    /// The shard that it serves.
    pub shard: &'a Shard<T>,
    /// What the shards of the engine share.
    pub shared: &'a Shared<T>,
    /// The handler of due payloads.
    pub handler: &'a dyn Handler<T>,
    /// The engine's clock.
    pub clock: &'a Clock,
    /// The engine's tick.
    pub scale: Scale,
    /// The observer of the shard.
    pub observer: &'a Observer,
    /// Raised when the engine stops: see [`Ending`](super::Ending).
    pub stopping: &'a AtomicBool,
}

/// What a turn did, and when the next one is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Payloads handed over.
    pub fired: usize,
    /// There is more to do at once.
    pub busy: bool,
    /// There is nothing else to do at once, but a further turn may free memory.
    pub collects: bool,
    /// When the shard needs its next turn; [`Tick::NEVER`]: when the doorbell rings.
    pub next: Tick,
}

// === impl Reaper ===

impl<'a, T> Reaper<'a, T> {
    /// Runs a turn at `now` that fires at most `max_fired` timers. `queue` must be empty, and stays
    /// empty unless a stop intervenes: then the payloads in it are left for the stopper, and the
    /// report counts only those that fired. Returns `None` if the shard is closed, or if a stop
    /// intervened before anything fired.
    ///
    /// A timer that the turn's own tasks schedule for the present fires in a later turn, so that a
    /// turn ends. The exception is a bucket of the present that is still to be opened, which
    /// happens once in a turn.
    pub fn turn(&self, queue: &mut Queue<T>, now: Tick, max_fired: usize) -> Option<Report> {
        self.turn_of(self.lock(), queue, now, max_fired)
    }

    /// As [`Reaper::turn`], for a caller that holds the shard's lock.
    pub(super) fn turn_of(
        &self,
        owner: MutexGuard<'a, Owner<T>>,
        queue: &mut Queue<T>,
        now: Tick,
        max_fired: usize,
    ) -> Option<Report> {
        if owner.is_closed() {
            return None;
        }
        let now = self.shard.begin(now);
        match self.fire_due(owner, queue, now, max_fired) {
            Ok((owner, fired)) => Some(self.report(owner, now, fired)),
            // The next turn finds the shard closed.
            Err(fired) => {
                (fired > 0).then_some(Report { fired, busy: true, collects: false, next: now })
            }
        }
    }

    /// Opens the due buckets and hands their payloads over. Returns how many payloads have fired;
    /// `Err`: a stop intervened.
    #[inline(always)]
    fn fire_due(
        &self,
        mut owner: MutexGuard<'a, Owner<T>>,
        queue: &mut Queue<T>,
        now: Tick,
        max_fired: usize,
    ) -> Result<(MutexGuard<'a, Owner<T>>, usize), usize> {
        self.shard.read_notices(&mut owner);
        let mut fired = 0;
        let mut opened = None;
        while fired + owner.batch().len() < max_fired {
            if !self.shard.is_open(&owner) && !self.shard.open_due(&mut owner, now) {
                break;
            }
            if owner.batch().is_empty() {
                opened = owner.opened();
            }
            self.shard.flush(&mut owner, self.shared, BATCH.min(max_fired - fired));
            if owner.batch().len() >= BATCH {
                (owner, fired) = self.hand_over(owner, queue, opened, fired)?;
            }
        }
        self.hand_over(owner, queue, opened, fired)
    }

    /// Whether the engine is stopping, so that no payload is handed over any more.
    pub(super) fn is_stopping(&self) -> bool {
        // ORDER(STOP): Acquire - pairs with the swap that raises the flag.
        self.stopping.load(Ordering::Acquire)
    }

    /// The shard's own lock.
    pub(super) fn lock(&self) -> MutexGuard<'a, Owner<T>> {
        self.shard.owner().lock().expect("nothing panics under this lock")
    }

    /// Reports what is left after a turn: more due buckets, background work, or a sleep.
    fn report(&self, mut owner: MutexGuard<'a, Owner<T>>, now: Tick, fired: usize) -> Report {
        self.shard.read_notices(&mut owner);
        self.shard.publish(&owner, self.shared);
        let is_due = self.shard.is_due(&owner, now);
        let busy = if is_due {
            self.shard.work_a_share(&mut owner, self.shared);
            true
        } else {
            self.shard.run_background(&mut owner, self.shared, now)
        };
        let next = if busy { now } else { self.shard.next_wake(&owner, self.shared) };
        let is_quiet = !is_due && self.observer.is_saturated();
        let next_opening = is_quiet.then(|| owner.next_opening());
        // A callback of the observer may do anything.
        drop(owner);
        if let Some(next) = next_opening {
            self.look_whether_caught_up(next);
        }
        let collects = !busy && (entry::collect() | self.shared.trim());
        Report { fired, busy, collects, next }
    }

    /// Hands over the collected payloads, without the shard's lock. The first of them comes from a
    /// bucket that was due to open at `opened`; `before` payloads of this turn have fired already.
    /// Returns how many payloads this turn has fired. `Err`: a stop intervened, and may have left
    /// some in `queue`.
    fn hand_over(
        &self,
        mut owner: MutexGuard<'a, Owner<T>>,
        queue: &mut Queue<T>,
        opened: Option<Tick>,
        before: usize,
    ) -> Result<(MutexGuard<'a, Owner<T>>, usize), usize> {
        let fired = owner.batch().len();
        if fired == 0 {
            return Ok((owner, before));
        }
        debug_assert!(queue.is_empty(), "what a stop left in hand is not handed over");
        mem::swap(owner.batch(), queue);
        let counters = owner.counters().clone();
        drop(owner);
        self.shared.discharge(fired as u64);
        super::handover::hand_over(self, queue, &counters, opened);
        let mut owner = self.lock();
        if fired == BATCH && !owner.is_closed() {
            self.shard.work_a_share(&mut owner, self.shared);
        }
        if !queue.is_empty() {
            owner.count(Count::Returned, queue.len() as u64);
        }
        if owner.is_closed() || !queue.is_empty() {
            return Err(before + fired - queue.len());
        }
        Ok((owner, before + fired))
    }

    /// Time has passed during the turn. The shard is on time again only if nothing has become due
    /// meanwhile.
    #[cold]
    fn look_whether_caught_up(&self, next: Tick) {
        let now_ns = self.clock.now_ns();
        if next > self.scale.floor(now_ns) {
            self.observer.caught_up(now_ns);
        }
    }
}

debug! { impl[T] Reaper['_, T] { shard = |this| this.shard } }
