//! The owner's core: what only the thread with the owner lock touches. And the steps of a turn up
//! to the entries of a bucket: the clock moves on, notices are read, the first due bucket opens.
//!
//! Entries that may be due are in the buckets and trays of the `agenda`. The owner opens them in
//! this order: a parked bucket, if it is its turn; what is due first, where entries that are in
//! trays come before the bucket; a parked bucket, if nothing else is due. What happens to each
//! entry is in `flush`.
//!
//! *Owner*: the thread that holds the owner lock. To open buckets it also has the shard's role. A
//! stopper closes without the role (STOP).
//!
//! *Orderings*: BUCKET-ARM: the shard's clock reaches an armed bucket's expiration before its place
//! leaves the agenda and its lists are taken. (An eager cascade takes lists earlier, and leaves
//! the place.)

use std::mem;
use std::ptr::{self, NonNull};

use crate::dispatch::Payloads;
use crate::entry::{Entry, Filed};
use crate::inbox::{At, Tray, next_of};
use crate::memory::{Count, Counters, Outbox, Shared};
use crate::sync::{Arc, Ordering};
use crate::time::{Place, Tick};

use super::agenda::{Agenda, Open};
use super::swept::{Sweep, Swept};
use super::trays::Trays;
use super::{Bucket, Shard, bucket_number};

/// The part of a shard that only its owner sees.
pub struct Owner<T> {
    pub(super) agenda: Agenda<T>,
    /// Empty trays: narrow ones, and wide ones.
    spare: [Vec<Arc<Tray<Entry<T>>>>; 2],
    pub(super) sweep: Sweep<T>,
    /// Entries that the turn under way may still look at.
    pub(super) budget: usize,
    pub(super) outbox: Outbox<T>,
    pub(super) counters: Arc<Counters>,
    /// Payloads that are due and not yet handed over.
    pub(super) batch: Payloads<T>,
    /// How many of them have a handle, and are not counted yet.
    pub(super) held: u64,
    pub(super) closed: bool,
    /// Which lane or chain is next.
    lane: usize,
    /// Entries visited, for tests.
    #[cfg(test)]
    pub(super) visits: u64,
}

// === impl Owner ===

impl<T> Owner<T> {
    pub(super) fn new(index: u32, shared: &Shared<T>) -> Owner<T> {
        Owner {
            agenda: Agenda::new(shared.share),
            spare: [Vec::new(), Vec::new()],
            sweep: Sweep::none(),
            budget: usize::MAX,
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
    pub fn set_budget(&mut self, entries: usize) {
        self.budget = entries;
    }

    /// Whether the turn under way has visited as many entries as it may.
    #[inline]
    pub fn has_spent_budget(&self) -> bool {
        self.budget == 0
    }

    /// Whether the shard was closed: it has no more turns.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether a due bucket is open or parked.
    #[inline]
    pub fn has_open(&self) -> bool {
        self.agenda.has_open()
    }

    /// When the first bucket opens that is not open; [`Tick::NEVER`] if there is none.
    #[inline]
    pub fn next_opening(&self) -> Tick {
        self.agenda.next_opening()
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

    /// The armed buckets, for tests.
    pub fn armed(&self) -> impl Iterator<Item = Place> {
        self.agenda.armed()
    }

    /// Counts an entry that is visited, in tests.
    #[inline]
    pub(super) fn visited(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }

    /// Takes back the tray of a bucket that is finished.
    #[inline]
    pub(super) fn put_away(&mut self, open: Open<T>) {
        debug_assert!(open.at.is_done(), "what is left in a tray would be lost");
        self.spare[usize::from(open.tray.is_wide())].push(open.tray);
    }

    /// Puts an entry aside that is filed at `place`.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit, and gives it up.
    pub(super) unsafe fn put_aside(
        &mut self,
        trays: &Trays<T>,
        place: Place,
        entry: NonNull<Entry<T>>,
    ) {
        self.lane = self.lane.wrapping_add(1);
        let begin = || {
            let tray = self.spare[0].pop().unwrap_or_else(|| trays.add());
            tray.begin(bucket_number(place.level, place.slot));
            tray
        };
        let tray = self.agenda.aside_or(place, begin);
        // SAFETY: passed on to the caller; a tray is not given more once it opens.
        unsafe { tray.give(entry, self.lane) };
    }
}

debug! { impl[T] Owner[T] { batch = |this| this.batch.len() } }

// === impl Shard: notices ===

impl<T> Shard<T> {
    /// Begins a turn: the clock moves on *before* any list is taken (BUCKET-ARM). Returns the time
    /// of the turn, which never goes back.
    pub fn begin_turn(&self, now: Tick) -> Tick {
        let now = now.max(self.clock());
        // ORDER(BUCKET-ARM): Relaxed - the swaps that take the lists release this store to the
        // pushes that come after them. One writer at a time, by the owner lock.
        self.clock.store(now.get(), Ordering::Relaxed);
        now
    }

    /// Reads all notices into the agenda.
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
            owner.agenda.arm(place);
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
    #[inline(always)]
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
        if owner.agenda.arm(place) && self.clock() < place.expiration {
            // The agenda covers it: producers may rely on the bucket.
            bucket.arm(place.expiration);
        }
    }
}

// === impl Shard: opening ===

impl<T> Shard<T> {
    /// Opens the first bucket that is due at `now`: its entries are then in a tray. Goes on with a
    /// parked one if it is its turn, or if no other is due. Returns `false` if none is.
    pub fn open_due(&self, owner: &mut Owner<T>, now: Tick) -> bool {
        let agenda = &mut owner.agenda;
        debug_assert!(agenda.due.is_none(), "one bucket at a time");
        debug_assert!(now <= self.clock(), "the clock is stored before a list is taken");
        if agenda.is_turn_of_parked() {
            return agenda.go_on(now);
        }
        let next = agenda.first().filter(|place| place.expiration <= now);
        let eager = if agenda.eager.is_some() { agenda.take_eager(next, now) } else { None };
        let open = match (eager, next) {
            (Some(open), _) => open,
            (None, Some(place)) => self.open(owner, place, true),
            (None, None) => return agenda.go_on(now),
        };
        owner.agenda.due = Some(open);
        true
    }

    /// Opens the first place of a level, because it `is_due` or to be cascaded eagerly.
    #[inline]
    pub(super) fn open(&self, owner: &mut Owner<T>, place: Place, is_due: bool) -> Open<T> {
        if let Some(tray) = owner.agenda.begin_opening(place, is_due) {
            owner.sweep.leave(Swept::Round(place));
            return Open::begin(place, tray.open(), tray);
        }
        let bucket = self.wheel.bucket(place).expect("what is on the agenda exists");
        self.open_bucket(owner, bucket, place, Bucket::take_into)
    }

    /// Takes the entries of a bucket into a tray, by `take`.
    #[inline]
    pub(super) fn open_bucket(
        &self,
        owner: &mut Owner<T>,
        bucket: &Bucket<T>,
        place: Place,
        take: impl FnOnce(&Bucket<T>, &Tray<Entry<T>>) -> At,
    ) -> Open<T> {
        owner.sweep.leave(Swept::Bucket(place.level, place.slot));
        let tray = owner.spare[1].pop().unwrap_or_else(|| self.trays.add_wide());
        tray.begin(bucket_number(place.level, place.slot));
        let at = take(bucket, &tray);
        Open::begin(place, at, tray)
    }

    /// At the beginning of a turn at `now`: parks the open bucket if it had its share and something
    /// else is due, or parked. (Only the beginning of a turn parks. A turn that fires all that is
    /// due goes through each bucket to its end, in the order of ticks.)
    #[cold]
    #[inline(never)]
    pub fn let_pass(&self, owner: &mut Owner<T>, now: Tick) {
        owner.agenda.let_pass(now);
    }

    /// Whether a due bucket is open and not yet flushed.
    pub fn is_open(&self, owner: &Owner<T>) -> bool {
        owner.agenda.due.is_some()
    }

    /// Whether a bucket is due at `now`, open or not.
    pub fn is_due(&self, owner: &Owner<T>, now: Tick) -> bool {
        owner.has_open() || owner.next_opening() <= now
    }
}
