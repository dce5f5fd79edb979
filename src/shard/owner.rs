//! The owner's core: what only the thread that runs a shard's turn touches.
//!
//! *Owner*: whoever holds the shard's lock: the reaper's thread, or the caller that drives the
//! shard. The same role opens buckets, sweeps and closes (STOP).

use std::fmt;
use std::ptr::NonNull;

use crate::dispatch::Queue;
use crate::entry::{Entry, Filed};
use crate::inbox::Walk;
use crate::sync::{Arc, Ordering};
use crate::time::{Geometry, Place, Tick};

use super::ahead::{Errand, NO_SWEEP};
use super::late::Late;
use super::{Agenda, Count, Notice, Pool, Shard, Stock, Tally};

/// The part of a shard that its owner alone sees.
pub struct Owner<T> {
    pub(super) agenda: Agenda,
    /// The due bucket that is being flushed.
    pub(super) due: Option<Box<Flush<T>>>,
    /// In place of `due` while no bucket is: it is too large to be moved about.
    pub(super) spare: Option<Box<Flush<T>>>,
    /// What a late turn found of later rounds that are due as well.
    pub(super) late: Late<T>,
    /// What is done ahead of time while nothing is due.
    pub(super) errand: Option<Errand<T>>,
    /// Per level: the last bucket that was cascaded ahead of its time.
    pub(super) cascaded: Vec<Tick>,
    /// Where the sweep under way goes on: level and slot.
    pub(super) swept: (u8, usize),
    pub(super) stock: Stock<T>,
    pub(super) tally: Arc<Tally>,
    /// Payloads that are due and not yet handed over.
    pub(super) batch: Queue<T>,
    pub(super) closed: bool,
    /// Which lane is next.
    turn: usize,
}

/// A due bucket on the way out.
pub(super) struct Flush<T> {
    pub(super) place: Place,
    /// What an errand had taken out of the bucket before.
    pub(super) early: Option<Walk<Entry<T>>>,
    pub(super) walk: Walk<Entry<T>>,
}

// === impl Flush ===

impl<T> Flush<T> {
    /// The next entry: what was taken out before comes first.
    #[inline]
    pub(super) fn next(&mut self) -> Option<NonNull<Entry<T>>> {
        if let Some(early) = &mut self.early {
            if let Some(entry) = early.next() {
                return Some(entry);
            }
            self.early = None;
        }
        self.walk.next()
    }

    /// Whether every entry was handed out.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.early.as_ref().is_none_or(Walk::is_done) && self.walk.is_done()
    }

    /// What is still to come, for checks.
    pub(super) fn rest(&self) -> impl Iterator<Item = NonNull<Entry<T>>> + '_ {
        self.early.iter().flat_map(Walk::rest).chain(self.walk.rest())
    }
}

// === impl Owner ===

impl<T> Owner<T> {
    pub(super) fn new(geometry: &Geometry, pool: &Pool<T>) -> Owner<T> {
        Owner {
            agenda: Agenda::new(),
            due: None,
            spare: None,
            late: Late::new(),
            errand: None,
            cascaded: vec![Tick::ZERO; usize::from(geometry.levels())],
            swept: NO_SWEEP,
            closed: false,
            stock: Stock::new(pool),
            tally: pool.tallies.claim(),
            batch: Queue::new(),
            turn: 0,
        }
    }

    /// Payloads that are due and wait to be handed over.
    pub fn batch(&mut self) -> &mut Queue<T> {
        &mut self.batch
    }

    /// Whether the shard was closed: it has no more turns.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// When the bucket was to be opened that was opened last; `None`: there is none yet.
    #[inline]
    pub fn opened(&self) -> Option<Tick> {
        self.due.as_ref().or(self.spare.as_ref()).map(|flush| flush.place.expiration)
    }

    /// Counts something that the reaper did.
    pub fn count(&self, count: Count, n: u64) {
        self.tally.add(count, n);
    }

    /// The armed buckets, for tests and checks.
    pub fn agenda(&self) -> &Agenda {
        &self.agenda
    }
}

impl<T> fmt::Debug for Owner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("batch", &self.batch.len()).finish_non_exhaustive()
    }
}

// === impl Shard: the owner's steps ===

impl<T> Shard<T> {
    /// Begins a turn: the clock moves on *before* any list is taken (BUCKET-ARM). Answers the
    /// time of the turn, which never goes back.
    pub fn begin(&self, now: Tick) -> Tick {
        let now = now.max(self.clock());
        // ORDER(BUCKET-ARM): Relaxed - the swaps that take the lists are the releases that make
        // it visible to whoever pushes after them. One writer at a time, by the owner's lock.
        self.clock.store(now.get(), Ordering::Relaxed);
        now
    }

    /// Reads all notices into the agenda.
    pub fn read_notices(&self, owner: &mut Owner<T>) {
        if !self.has_notices() {
            return;
        }
        let mut next = self.notices.take();
        while let Some(notice) = NonNull::new(next) {
            // SAFETY: the take made the whole chain ours.
            let this = unsafe { notice.as_ref() };
            let place = this.place();
            next = crate::inbox::next_of(this);
            // SAFETY: it was taken out of the list and is not used again.
            unsafe { Notice::let_go(notice) };
            self.note(owner, place);
        }
    }

    /// Puts a bucket on the agenda, unless the very same item is there.
    pub(super) fn note(&self, owner: &mut Owner<T>, place: Place) {
        let bucket = self.wheel.bucket(place).expect("a bucket that holds entries exists");
        if bucket.set_queued(place.expiration) {
            owner.agenda.add(place);
        }
    }

    /// Pushes an entry that the owner holds into the bucket that it was re-filed to.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit and re-filed it to `place`.
    pub(super) unsafe fn push(&self, owner: &mut Owner<T>, entry: NonNull<Entry<T>>, place: Place) {
        let bucket = self.wheel.bucket(place).expect("only the owner closes");
        owner.turn = owner.turn.wrapping_add(1);
        // SAFETY: passed on to the caller.
        unsafe { bucket.own.push(entry, owner.turn) };
        if bucket.set_queued(place.expiration) {
            owner.agenda.add(place);
            if self.clock() < place.expiration {
                // The agenda covers it: producers may rely on the bucket.
                bucket.arm(place.expiration);
            }
        }
    }

    /// Pushes an entry that the owner holds back where it was.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit and took it from the bucket of `filed`.
    pub(super) unsafe fn push_back(
        &self,
        owner: &mut Owner<T>,
        entry: NonNull<Entry<T>>,
        filed: Filed,
    ) {
        let place = self.wheel.geometry().place_on(filed.expiration, filed.level);
        // SAFETY: passed on to the caller; the entry still says that it is filed there.
        unsafe { self.push(owner, entry, place) };
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::Keeper;
    use super::*;
    use crate::doorbell::{Bell, Doorbell};

    #[test]
    fn producers_need_no_notice_for_a_bucket_that_the_owner_files_in() {
        // SAFETY: what is built on it keeps to it, and is closed before it goes.
        let pool = unsafe { Pool::new(0, 1, None) };
        let bell = Doorbell::new(Bell::None);
        let shard = Shard::new(0, Geometry::default(), bell, Tick::ZERO, &pool);
        let mut keeper = Keeper::new(&pool);
        let mut schedule = |now: Tick| {
            keeper.schedule(&pool, &shard, Tick::new(1100), || now, (), false).unwrap();
        };
        let owner = &mut *shard.owner().lock().unwrap();
        schedule(Tick::ZERO);
        assert!(shard.has_notices(), "the bucket of level 3 is not armed");
        shard.read_notices(owner);
        let now = shard.begin(Tick::new(1024));
        assert!(shard.open_due(owner, now) && shard.flush(owner, &pool, 1));
        schedule(now);
        assert!(!shard.has_notices(), "that of level 2 is, since the first was re-filed");
        assert_eq!(shard.close(owner, &pool).len(), 2);
        keeper.clear(&pool);
    }
}
