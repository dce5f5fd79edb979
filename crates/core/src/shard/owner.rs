//! The owner's core: what only the thread with the owner lock touches. And the steps of a turn
//! before buckets open: the clock moves on, and notices put buckets on the armed heap.
//!
//! *Owner*: the thread that holds the owner lock. To open buckets it also has the shard's role. A
//! stopper closes without the role (STOP).

use std::mem;
use std::ptr::{self, NonNull};

use crate::dispatch::Payloads;
use crate::entry::{Entry, Filed};
use crate::inbox::{Tray, next_of};
use crate::memory::{Count, Counters, Outbox, Shared};
use crate::sync::events::{Event, reached};
use crate::sync::{Arc, Ordering};
use crate::time::{Geometry, Place, Tick};

use super::opening::Open;
use super::parked::Parked;
use super::rounds::Rounds;
use super::sweep::Sweep;
use super::trays::Trays;
use super::{ArmedHeap, Bucket, Shard};

/// The part of a shard that only its owner sees.
pub struct Owner<T> {
    pub(super) heap: ArmedHeap,
    /// The due bucket or round that is being flushed.
    pub(super) due: Option<Open<T>>,
    /// The bucket or round that is being cascaded eagerly.
    pub(super) eager: Option<Open<T>>,
    /// Due buckets that were opened, and let others pass.
    pub(super) parked: Parked<T>,
    /// Empty wide trays.
    pub(super) spare: Vec<Arc<Tray<Entry<T>>>>,
    /// Entries that were found in buckets and belong to other rounds.
    pub(super) rounds: Rounds<T>,
    pub(super) sweep: Sweep<T>,
    /// Entries that the turn under way may still look at.
    pub(super) looks: usize,
    /// The expiration of the bucket or round that was opened last.
    pub(super) opened: Option<Tick>,
    /// Per level: the last bucket that was cascaded eagerly.
    pub(super) cascaded: Vec<Tick>,
    /// No further bucket is to be cascaded eagerly before this time, unless coarse buckets have
    /// come or gone.
    pub(super) cascades_from: Tick,
    pub(super) outbox: Outbox<T>,
    pub(super) counters: Arc<Counters>,
    /// Payloads that are due and not yet handed over.
    pub(super) batch: Payloads<T>,
    /// How many of them have a handle, and are not counted yet.
    pub(super) held: u64,
    pub(super) closed: bool,
    /// Which lane is next.
    lane: usize,
    /// Entries looked at, for tests.
    #[cfg(test)]
    pub(super) visits: u64,
}

// === impl Owner ===

impl<T> Owner<T> {
    pub(super) fn new(
        index: u32,
        geometry: &Geometry,
        shared: &Shared<T>,
        trays: &Trays<T>,
    ) -> Owner<T> {
        Owner {
            heap: ArmedHeap::default(),
            due: None,
            eager: None,
            parked: Parked::new(shared.share),
            spare: vec![trays.add_wide(), trays.add_wide()],
            rounds: Rounds::new(),
            sweep: Sweep::none(),
            looks: usize::MAX,
            opened: None,
            cascaded: vec![Tick::ZERO; usize::from(geometry.levels())],
            cascades_from: Tick::ZERO,
            closed: false,
            outbox: Outbox::new(shared, index),
            counters: shared.all_counters.claim(),
            batch: Payloads::new(),
            held: 0,
            lane: 0,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Payloads that are due and wait to be handed over.
    pub fn batch(&mut self) -> &mut Payloads<T> {
        &mut self.batch
    }

    /// Counts those of the batch that have a handle: they have fired.
    pub fn count_held(&mut self) {
        self.counters.add(Count::Unended, mem::take(&mut self.held));
    }

    /// Sets how many entries the next turn may look at; `usize::MAX`: no bound.
    #[inline]
    pub fn bound_looks(&mut self, looks: usize) {
        self.looks = looks;
    }

    /// Whether the turn under way has looked at as many entries as it may.
    #[inline]
    pub fn has_looked_enough(&self) -> bool {
        self.looks == 0
    }

    /// Whether the shard was closed: it has no more turns.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The expiration of the bucket or round that was opened last, if there is one.
    #[inline]
    pub fn opened(&self) -> Option<Tick> {
        self.opened
    }

    /// The owner's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Gives the owner new counters. A thread that has lost the role hands the old ones back; when
    /// the shard is closed, nobody does.
    pub fn change_counters(&mut self, shared: &Shared<T>) {
        self.counters = shared.all_counters.claim();
    }

    /// Adds to one of the owner's counters.
    pub fn count(&self, count: Count, n: u64) {
        self.counters.add(count, n);
    }

    /// The armed buckets, for tests and checks.
    pub fn heap(&self) -> &ArmedHeap {
        &self.heap
    }

    /// Counts an entry that is looked at, in tests.
    #[inline]
    pub(super) fn visited(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }

    /// Takes an empty wide tray. Beside those that are parked, two are enough: one is due, one is
    /// cascaded eagerly.
    #[inline]
    pub(super) fn spare_tray(&mut self) -> Arc<Tray<Entry<T>>> {
        self.spare.pop().expect("no more than two buckets are open and not parked")
    }

    /// Takes back the tray of a bucket or round that is finished.
    #[inline]
    pub(super) fn put_away(&mut self, open: Open<T>) {
        debug_assert!(open.at.is_done(), "what is left in a tray would be lost");
        if open.tray.is_wide() {
            self.spare.push(open.tray);
        } else {
            self.rounds.put_away(open.tray);
        }
    }
}

debug! { impl[T] Owner[T] { batch = |this| this.batch.len() } }

// === impl Shard: the owner's steps ===

impl<T> Shard<T> {
    /// Begins a turn: the clock moves on *before* any list is taken (BUCKET-ARM). Returns the time
    /// of the turn, which never goes back.
    pub fn begin(&self, now: Tick) -> Tick {
        let now = now.max(self.clock());
        // ORDER(BUCKET-ARM): Relaxed - the swaps that take the lists release this store to the
        // pushes that come after them. One writer at a time, by the owner lock.
        self.clock.store(now.get(), Ordering::Relaxed);
        now
    }

    /// Reads all notices into the armed heap.
    #[inline]
    pub fn read_notices(&self, owner: &mut Owner<T>, shared: &Shared<T>) {
        if self.has_notices() {
            self.read_some_notices(owner, shared);
        }
    }

    fn read_some_notices(&self, owner: &mut Owner<T>, shared: &Shared<T>) {
        let mut next = ptr::null_mut();
        self.notices.take(|first| next = first);
        while let Some(notice) = NonNull::new(next) {
            // SAFETY: the take made the whole chain ours.
            let this = unsafe { notice.as_ref() };
            let place = self.announced_by(this);
            next = next_of(this);
            // SAFETY: it was taken out of the list, and has no payload.
            unsafe { owner.outbox.put(shared, notice) };
            if !owner.heap.add(place) {
                reached(Event::NoticeForNothing);
            }
        }
        self.publish_first(owner.next_opening());
    }

    /// The place that a notice announces, for a thread that has the owner lock.
    pub(super) fn announced_by(&self, notice: &Entry<T>) -> Place {
        let Filed { level, expiration } = notice.filed();
        self.wheel.geometry().place_on(expiration, level)
    }

    /// Pushes an entry that the owner holds into the bucket that it was re-filed to.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit and re-filed it to `place`.
    pub(super) unsafe fn push(&self, owner: &mut Owner<T>, entry: NonNull<Entry<T>>, place: Place) {
        let bucket = self.wheel.bucket(place).expect("only the owner closes");
        owner.lane = owner.lane.wrapping_add(1);
        if !bucket.has_own_for(place.expiration) {
            self.begin_own(owner, bucket, place);
        }
        // SAFETY: passed on to the caller.
        unsafe { bucket.push_own(entry, owner.lane) };
    }

    /// Remembers that the owner files entries in a bucket, and for when.
    #[inline(never)]
    fn begin_own(&self, owner: &mut Owner<T>, bucket: &Bucket<T>, place: Place) {
        bucket.begin_own(place.expiration);
        if owner.heap.add(place) && self.clock() < place.expiration {
            // The armed heap covers it: producers may rely on the bucket.
            bucket.arm(place.expiration);
        }
    }
}
