//! The producer: a thread's seats, free entries and counters in one engine, and what it does with
//! them: schedule, cancel, reset.
//!
//! *Owner*: one thread (by `&mut`). Nothing here waits for another thread.
//!
//! A schedule takes a seat that opens early enough, and not yet, with one CAS. Without such a seat
//! it files a free entry, with one push. A cancel is one CAS and leaves a seat (`cancel`). A reset
//! is one CAS or, to a time before the bucket opens, or when the bucket is due, a cancel and a
//! schedule.
//!
//! *Invariant*: no foreign code runs in here. Calls of hooks are deferred (`deferred`).
//!
//! *Orderings*: SEAT, BUCKET-PUSH, CANCEL-FIRE, RESET-FIRE, RELEASE.
//!
//! *Tested by*: `loom-tests/tests/shard.rs`, and by everything in `tests/`.

use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;

use crate::entry::{Entry, Reset, read};
use crate::error::ScheduleError;
use crate::inbox::Closed;
use crate::memory::{Count, Seat, Shared, Stock};
use crate::shard::{Bucket, LOOK_OUT, Shard};
use crate::sync::IS_CHECKED;
use crate::time::{Place, Tick};

use super::{Chores, Deferred};

/// A thread publishes its counts after filing this many timers (`memory/balance.rs`).
const PUBLISH: usize = if IS_CHECKED { 1 } else { 64 };

const _: () = assert!(is_time_to_publish(LOOK_OUT), "a thread that looks out has just published");

/// Whether a thread publishes with the `lane`-th timer that it files.
#[cfg_attr(any(loom, shuttle), expect(clippy::modulo_one, reason = "models publish each time"))]
const fn is_time_to_publish(lane: usize) -> bool {
    lane % PUBLISH == 0
}

/// A thread's seats, free entries and counters.
pub struct Producer<T> {
    stock: Stock<T>,
    /// Goes round the lanes: incremented for each timer that is filed.
    lane: usize,
    /// Work that calls have deferred.
    chores: Chores,
}

/// The outcome of a reset to another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Due at the new time, in the same entry.
    Here,
    /// Due at the new time, in another entry; and whether work was deferred. The old entry left a
    /// seat, as after a cancel.
    Elsewhere(Deferred),
    /// It fired, or the engine stopped.
    Gone,
    /// The engine stopped halfway: the timer is stranded in another entry, with its payload.
    Stranded,
}

// === impl Producer ===

impl<T> Producer<T> {
    /// A producer for a thread that begins to use `shared`'s engine, and schedules in shard `home`.
    pub fn new(shared: &Shared<T>, home: u32) -> Producer<T> {
        Producer { stock: Stock::new(shared, home), lane: 0, chores: Chores::default() }
    }

    /// Puts two entries on the free list, as if the thread had scheduled before. For models.
    pub fn provide(&mut self, shared: &Shared<T>) {
        for entry in [(); 2].map(|()| self.stock.free_list.get(shared)) {
            // SAFETY: it was just taken, and has no payload.
            unsafe { self.stock.free_list.put(shared, entry) };
        }
    }

    /// Schedules `payload` for `deadline`. `now` is the caller's clock, which passed `due` a moment
    /// ago: no seat in a bucket that was due then is taken. Returns the entry, and whether work was
    /// deferred: none if the timer got a seat. `store` gets the entry before the timer can fire,
    /// and is not called if the limit is reached.
    ///
    /// `PINS`: only the registry and this thread keep the engine, which may end meanwhile (see
    /// `shard/close.rs`). `EXEMPT`: the limit does not count the payload.
    ///
    /// # Errors
    /// The limit is reached, or the engine has stopped.
    ///
    /// # Safety
    /// `store` saves the pointer and does no more; it does not panic. After an error the entry is
    /// no timer of the caller's.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "inlined")]
    pub unsafe fn schedule<const PINS: bool, const EXEMPT: bool>(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        deadline: Tick,
        now: impl FnOnce() -> Tick,
        due: impl Fn() -> Tick,
        payload: T,
        held: bool,
        store: impl FnOnce(NonNull<Entry<T>>),
    ) -> Result<(NonNull<Entry<T>>, Deferred), ScheduleError<T>> {
        if !shared.admit::<EXEMPT>() {
            return Err(ScheduleError::full(payload));
        }
        // `ManuallyDrop` avoids a second copy of the payload for unwinding; nothing below panics.
        let payload = ManuallyDrop::new(payload);
        let (entry, is_seat) = self.claim(shared, deadline, due);
        store(entry);
        // SAFETY: this thread keeps the seat, or holds the free entry alone, as `put_payload`
        // requires.
        unsafe { entry.as_ref().put_payload(ManuallyDrop::into_inner(payload)) };
        // SAFETY: the seat is kept, `claim` chose it by its time, and the payload is put.
        if is_seat && unsafe { Entry::take_seat(entry, deadline, held) } {
            self.stock.counters.add(Count::Seated, 1);
            return Ok((entry, Deferred::NOTHING));
        }
        // The reaper unlinked the seat before we could take it, or there was none.
        // SAFETY: the entry is plain memory of ours and the payload is put.
        unsafe { self.schedule_filed::<PINS>(shared, shard, deadline, now(), entry, held) }
    }

    /// Keeps the seat of a timer that was cancelled; returns whether work was deferred.
    ///
    /// # Safety
    /// The caller vacated `entry`, which belongs to the engine of `shared` and opens at `opens`. It
    /// has taken or dropped the payload, and gives the entry up.
    #[inline]
    pub(super) unsafe fn keep_vacated<const EXEMPT: bool>(
        &mut self,
        shared: &Shared<T>,
        entry: NonNull<Entry<T>>,
        opens: Tick,
    ) -> Deferred {
        self.stock.counters.add(Count::Cancelled, 1);
        shared.discharge(!EXEMPT);
        self.keep(shared, Seat { entry, opens })
    }

    /// Moves the timer of a handle to `deadline`: to another entry, if its bucket was due at `due`
    /// (as for [`Producer::schedule`]) or opens after `deadline`. `store` gets that entry before
    /// the timer can fire there.
    ///
    /// # Safety
    /// The caller has the handle of `entry`, which belongs to the engine of `shared`. After
    /// `Elsewhere` and `Stranded` it is the handle of the other entry. `store` saves the pointer
    /// and does no more, and does not panic.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "inlined")]
    pub unsafe fn reset(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        entry: NonNull<Entry<T>>,
        deadline: Tick,
        now: impl FnOnce() -> Tick,
        due: impl Fn() -> Tick,
        store: impl FnOnce(NonNull<Entry<T>>),
    ) -> Moved {
        let due = due();
        // SAFETY: the caller has the handle.
        match unsafe { entry.as_ref().reset(deadline, due) } {
            Reset::Moved => {
                self.stock.counters.add(Count::Reset, 1);
                Moved::Here
            }
            Reset::Gone => Moved::Gone,
            // SAFETY: the caller has the handle.
            Reset::Elsewhere => unsafe {
                self.move_elsewhere(shared, shard, entry, deadline, now, || due, store)
            },
        }
    }

    /// Files an entry again that was unlinked during an exchange. Returns whether work was
    /// deferred, or `None` if the engine has stopped: the timer is stranded then. Counts and limit
    /// stay as they are, because there is one timer throughout.
    ///
    /// # Safety
    /// The caller has the handle. [`Entry::exchange`] has returned `Unlinked` with this deadline,
    /// and the entry belongs to the engine of `shared`.
    #[cold]
    pub unsafe fn file_exchanged(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        entry: NonNull<Entry<T>>,
        deadline: Tick,
        now: Tick,
    ) -> Option<Deferred> {
        // This thread alone may keep the engine: see `shard/close.rs`.
        let _reader = read();
        // SAFETY: it was unlinked, so this thread holds it alone, with a payload in it.
        let counts = shared.counts(unsafe { entry.as_ref().payload() });
        // SAFETY: it was unlinked, so this thread holds it alone, with a payload in it.
        match unsafe { self.push(shared, shard, deadline, now, entry, true) } {
            Ok(deferred) => Some(deferred),
            Err(Closed) => {
                // SAFETY: it was refused, so it is still ours alone, pending and held.
                unsafe { self.strand(shared, entry, counts) };
                None
            }
        }
    }

    /// Counts a timer that this producer did not move itself. `Reset`: its word alone was changed.
    /// `Rearmed`: it fired without a task of the user's and was scheduled again; it counts neither
    /// as scheduled nor as fired.
    pub fn count(&mut self, count: Count) {
        self.stock.counters.add(count, 1);
    }

    /// Adds an entry's memory to the free list, and counts the end of a timer that had fired.
    ///
    /// # Safety
    /// The caller alone holds `entry`, which belongs to the engine of `shared`, and gives it up.
    /// Its payload is out.
    pub(super) unsafe fn take_in(
        &mut self,
        shared: &Shared<T>,
        entry: NonNull<Entry<T>>,
        has_fired: bool,
    ) {
        if has_fired {
            // One less.
            self.stock.counters.add(Count::Unended, u64::MAX);
        }
        // SAFETY: passed on to the caller.
        unsafe { self.stock.free_list.put(shared, entry) };
    }

    /// Uses only seats of `shard` from now on; the caller files in that shard too. Returns whether
    /// work was deferred.
    pub fn bind(&mut self, shared: &Shared<T>, shard: u32) -> Deferred {
        let has_left_dead = self.stock.bind(shared, shard);
        self.defer_sweep(shared, has_left_dead)
    }

    /// Gives away everything that the thread keeps, and publishes its counts. Returns whether work
    /// was deferred.
    pub fn clear(&mut self, shared: &Shared<T>) -> Deferred {
        let has_left_dead = self.stock.clear(shared);
        self.defer_sweep(shared, has_left_dead)
    }

    /// Takes the deferred work. To be called when a call says that there is some.
    pub fn take_chores(&mut self) -> Chores {
        mem::take(&mut self.chores)
    }

    /// Finds room for a payload: a seat that opens early enough (`true`), or a free entry.
    #[inline]
    fn claim(
        &mut self,
        shared: &Shared<T>,
        deadline: Tick,
        due: impl Fn() -> Tick,
    ) -> (NonNull<Entry<T>>, bool) {
        match self.stock.pick(shared, deadline, due) {
            Some(seat) => (seat, true),
            None => (self.stock.free_list.get(shared), false),
        }
    }

    /// The rest of a schedule that got no seat.
    ///
    /// # Safety
    /// As `push`.
    #[inline(never)]
    unsafe fn schedule_filed<const PINS: bool>(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        deadline: Tick,
        now: Tick,
        entry: NonNull<Entry<T>>,
        held: bool,
    ) -> Result<(NonNull<Entry<T>>, Deferred), ScheduleError<T>> {
        let _reader = PINS.then(read);
        // SAFETY: passed on to the caller; with `PINS`, this thread is a reader.
        match unsafe { self.push(shared, shard, deadline, now, entry, held) } {
            Ok(deferred) => {
                self.stock.counters.add(Count::Filed, 1);
                Ok((entry, deferred))
            }
            Err(Closed) => {
                // SAFETY: it was refused, so it is still ours alone, and its payload with it.
                let payload = unsafe { entry.as_ref().take_back() };
                // SAFETY: it is still ours alone, and the payload is out.
                unsafe { self.stock.free_list.put(shared, entry) };
                shared.discharge(shared.counts(&payload));
                Err(ScheduleError::stopped(payload))
            }
        }
    }

    /// Files a free entry; returns whether work was deferred. A refused entry stays pending and is
    /// still the caller's.
    ///
    /// # Safety
    /// This thread holds the entry alone, and a payload was put into it. The shard is not
    /// dismantled meanwhile, or this thread is a reader.
    #[inline(always)]
    pub(super) unsafe fn push(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        deadline: Tick,
        now: Tick,
        entry: NonNull<Entry<T>>,
        held: bool,
    ) -> Result<Deferred, Closed> {
        // SAFETY: the caller holds it.
        let this = unsafe { entry.as_ref() };
        let place = shard.place(shared, deadline, now);
        // SAFETY: the caller holds it alone and has put the payload; it is pushed next.
        unsafe { this.make_pending(deadline, place, shard.index(), held) };
        self.lane = self.lane.wrapping_add(1);
        let mut deferred = Deferred::NOTHING;
        if is_time_to_publish(self.lane) && self.publish_and_look_out(shared, shard, place) {
            deferred = self.chores.call_hook(shard.index(), None);
        }
        // SAFETY: it was made pending for this place and nobody else holds it; the rest is passed
        // on.
        if let Some(bucket) = unsafe { shard.file(entry, place, self.lane) }? {
            // SAFETY: the entry was filed there; the rest is passed on to the caller.
            deferred = deferred.or(unsafe { self.announce(shared, shard, bucket, place) });
        }
        Ok(deferred)
    }

    /// Tells the reaper of an entry that was filed in `bucket`; returns whether work was deferred.
    ///
    /// # Safety
    /// As `push`.
    #[cold]
    unsafe fn announce(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        bucket: &Bucket<T>,
        place: Place,
    ) -> Deferred {
        let notice = self.stock.free_list.get(shared);
        // SAFETY: it is free memory, given up here; the rest is passed on to the caller.
        match unsafe { shard.announce(bucket, notice, place) } {
            Ok(false) => Deferred::NOTHING,
            Ok(true) => self.chores.call_hook(shard.index(), Some(place)),
            Err(Closed) => {
                // SAFETY: it was refused, so it is still this thread's, and has no payload.
                unsafe { self.stock.free_list.put(shared, notice) };
                Deferred::NOTHING
            }
        }
    }

    /// Publishes the counts, and every `LOOK_OUT` timers checks whether the reaper knows of a
    /// crowd. Returns `true` if the shard's hook is to be called.
    #[cold]
    #[inline(never)]
    fn publish_and_look_out(&self, shared: &Shared<T>, shard: &Shard<T>, place: Place) -> bool {
        shared.balance.publish_counts(&self.stock.counters);
        self.lane % LOOK_OUT == 0 && shard.look_out(shared, place.level, place.expiration)
    }

    /// Resets to a time before the bucket opens, or when that is due: moves the payload to another
    /// entry.
    ///
    /// # Safety
    /// As `reset`.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "those of `reset`")]
    unsafe fn move_elsewhere(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        entry: NonNull<Entry<T>>,
        deadline: Tick,
        now: impl FnOnce() -> Tick,
        due: impl Fn() -> Tick,
        store: impl FnOnce(NonNull<Entry<T>>),
    ) -> Moved {
        // SAFETY: the caller has the handle.
        let Some((payload, opens)) = (unsafe { entry.as_ref().cancel() }) else {
            return Moved::Gone;
        };
        // This thread alone may keep the engine: see `shard/close.rs`.
        let _reader = read();
        // The old seat cannot serve this deadline, so it is kept after the new entry is filed.
        let (fresh, is_seat) = self.claim(shared, deadline, due);
        store(fresh);
        let counts = shared.counts(&payload);
        // SAFETY: this thread keeps the seat, or holds the free entry alone.
        unsafe { fresh.as_ref().put_payload(payload) };
        // SAFETY: the seat is kept, `claim` chose it by its time, and the payload is put.
        let is_seated = is_seat && unsafe { Entry::take_seat(fresh, deadline, true) };
        let filed = match is_seated {
            true => Ok(Deferred::NOTHING),
            // SAFETY: the entry is plain memory of ours, the payload is put; this thread is a
            // reader.
            false => unsafe { self.push(shared, shard, deadline, now(), fresh, true) },
        };
        let sweep = self.keep_with_care(shared, Seat { entry, opens });
        match filed {
            Ok(deferred) => {
                self.stock.counters.add(Count::Reset, 1);
                Moved::Elsewhere(deferred.or(sweep))
            }
            Err(Closed) => {
                // SAFETY: it was refused, so it is still ours alone, pending and held.
                unsafe { self.strand(shared, fresh, counts) };
                Moved::Stranded
            }
        }
    }

    /// Leaves a payload with its handle, after the push was refused. `counts`: whether the
    /// limit counts it.
    ///
    /// # Safety
    /// The entry is this thread's alone, pending and held.
    pub(super) unsafe fn strand(
        &mut self,
        shared: &Shared<T>,
        entry: NonNull<Entry<T>>,
        counts: bool,
    ) {
        // SAFETY: passed on to the caller.
        unsafe { entry.as_ref().strand() };
        self.stock.counters.add(Count::Returned, 1);
        shared.discharge(counts);
    }

    #[inline]
    fn keep(&mut self, shared: &Shared<T>, seat: Seat<T>) -> Deferred {
        match self.stock.keep_unchecked(seat) {
            Ok(()) => Deferred::NOTHING,
            Err(seat) => self.keep_with_care(shared, seat),
        }
    }

    /// Out of line, so that a call with room does not pay for it.
    #[cold]
    #[inline(never)]
    fn keep_with_care(&mut self, shared: &Shared<T>, seat: Seat<T>) -> Deferred {
        let has_left_dead = self.stock.keep(shared, seat);
        self.defer_sweep(shared, has_left_dead)
    }

    /// Defers a request to sweep if a call has left dead entries and there are too many.
    #[inline]
    fn defer_sweep(&mut self, shared: &Shared<T>, has_left_dead: bool) -> Deferred {
        match has_left_dead && shared.balance.has_too_many_dead() {
            true => self.chores.sweep(),
            false => Deferred::NOTHING,
        }
    }
}

impl<T> Producer<T> {
    /// Ends the thread's use of the engine, after `clear`.
    pub fn hand_back(&self, shared: &Shared<T>) {
        shared.all_counters.hand_back(&self.stock.counters);
    }
}

debug! { impl[T] Producer[T] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
