//! A thread's cache of seats: vacancies that it keeps for its next timers.
//!
//! A timer takes the newest seat (its memory is the warmest) of those that open early enough. A
//! full cache moves the seat that opens last, which the fewest timers can use, to an outbox that
//! other threads fetch through the depot. If the depot is full too, the outbox is let go and its
//! seats are dead. So the seats that open early stay, and nearly every timer finds one at the first
//! look. A thread that cancels and does not schedule gives away the whole cache when it is full.
//!
//! A seat stays in its shard, and so does the timer that takes it. A thread that is bound to a
//! shard therefore keeps only seats of that shard: others go to the outbox.
//!
//! *Owner*: one thread, which is the producer of every seat in it (SEAT).

use std::mem;
use std::ptr::NonNull;

use crate::entry::Entry;
use crate::sync::{IS_CHECKED, prefetch};
use crate::time::Tick;

use super::counters::{Count, Counters};
use super::depot::Magazine;
use super::free_list::FreeList;
use super::shared::Shared;

/// Seats in a cache, and in a magazine of seats.
pub(crate) const SEATS: usize = if IS_CHECKED { 2 } else { 32 };

/// Timers for which an empty depot is not asked again: at first, and at most.
const LEAST_PATIENCE: usize = 8;
const MOST_PATIENCE: usize = 128;

/// A kept vacancy, and the earliest deadline that its bucket can serve.
pub(crate) struct Seat<T> {
    pub(crate) entry: NonNull<Entry<T>>,
    pub(crate) opens: Tick,
}

// SAFETY: a seat has no payload, and the thread that has the `Seat` is the vacancy's producer.
unsafe impl<T: Send> Send for Seat<T> {}

/// Whether a call has let go of filed seats: they are now dead entries of their shards.
#[must_use = "a sweep may be due"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftDead(bool);

pub(crate) struct Seats<T> {
    /// Left last, taken first.
    kept: Magazine<Seat<T>>,
    /// On the way to other threads.
    outbox: Magazine<Seat<T>>,
    /// Timers left until an empty depot is asked again, and the value for the next time.
    patience: usize,
    next_patience: usize,
    /// Whether a timer took a seat since the cache was last full.
    is_used: bool,
    /// The shard that the thread is bound to.
    bound_to: Option<u32>,
    /// Up to this many, seats are kept without a check: a bound thread checks each.
    at_once: usize,
}

// === impl LeftDead ===

impl LeftDead {
    pub(crate) const NONE: LeftDead = LeftDead(false);

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        !self.0
    }

    fn or(self, other: LeftDead) -> LeftDead {
        LeftDead(self.0 || other.0)
    }
}

// === impl Seats ===

impl<T> Seats<T> {
    pub(crate) fn new(shared: &Shared<T>) -> Seats<T> {
        Seats {
            kept: shared.seats.magazine(),
            outbox: shared.seats.magazine(),
            patience: 0,
            next_patience: LEAST_PATIENCE,
            is_used: false,
            bound_to: None,
            at_once: SEATS,
        }
    }

    /// Uses only seats of `shard` from now on: gives away those that there are.
    pub(crate) fn bind(
        &mut self,
        shard: u32,
        shared: &Shared<T>,
        free_list: &mut FreeList<T>,
        counters: &Counters,
    ) -> LeftDead {
        if self.bound_to == Some(shard) {
            return LeftDead::NONE;
        }
        (self.bound_to, self.at_once) = (Some(shard), 0);
        self.clear(shared, free_list, counters)
    }

    /// A seat for `deadline`.
    #[inline]
    pub(crate) fn pick(
        &mut self,
        shared: &Shared<T>,
        counters: &Counters,
        deadline: Tick,
    ) -> Option<NonNull<Entry<T>>> {
        match self.kept.last() {
            Some(last) if last.opens <= deadline => {
                self.is_used = true;
                self.kept.pop().map(|seat| seat.entry)
            }
            None if self.patience > 0 => {
                self.patience -= 1;
                None
            }
            _ => self.search(shared, counters, deadline),
        }
    }

    #[cold]
    fn search(
        &mut self,
        shared: &Shared<T>,
        counters: &Counters,
        deadline: Tick,
    ) -> Option<NonNull<Entry<T>>> {
        if self.kept.is_empty() && !self.refill(shared, counters) {
            return None;
        }
        self.is_used = true;
        let at = self.kept.iter().rposition(|seat| seat.opens <= deadline)?;
        Some(self.kept.swap_remove(at).entry)
    }

    /// Whether a seat is kept without a check.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.kept.len() < self.at_once
    }

    /// Keeps a seat. Others may be let go for it.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        seat: Seat<T>,
        shared: &Shared<T>,
        free_list: &mut FreeList<T>,
        counters: &Counters,
    ) -> LeftDead {
        if self.has_room() {
            self.kept.push(seat);
            return LeftDead::NONE;
        }
        self.keep_with_care(seat, shared, free_list, counters)
    }

    #[cold]
    fn keep_with_care(
        &mut self,
        seat: Seat<T>,
        shared: &Shared<T>,
        free_list: &mut FreeList<T>,
        counters: &Counters,
    ) -> LeftDead {
        // SAFETY: this thread is the vacancy's producer, so the entry is there.
        if self.bound_to.is_some_and(|home| unsafe { seat.entry.as_ref() }.shard() != home) {
            return self.pass_on(seat, shared, free_list, counters);
        }
        let dead = match self.kept.len() {
            SEATS => self.make_room(shared, free_list, counters),
            _ => LeftDead::NONE,
        };
        self.kept.push(seat);
        dead
    }

    pub(crate) fn clear(
        &mut self,
        shared: &Shared<T>,
        free_list: &mut FreeList<T>,
        counters: &Counters,
    ) -> LeftDead {
        let kept = give_away(&mut self.kept, shared, free_list, counters);
        let outbox = give_away(&mut self.outbox, shared, free_list, counters);
        kept.or(outbox)
    }

    fn refill(&mut self, shared: &Shared<T>, counters: &Counters) -> bool {
        if !self.outbox.is_empty() && self.bound_to.is_none() {
            mem::swap(&mut self.kept, &mut self.outbox);
            return true;
        }
        // A bound thread needs its outbox for what it fetches and cannot use.
        let has_room = self.outbox.is_empty() || shared.seats.leave(&mut self.outbox);
        if has_room && shared.seats.fetch(&mut self.kept) {
            // The timers that take these seats are published with the next magazine.
            shared.publish(counters);
            // They come from another core: prefetch all at once.
            self.kept.iter().for_each(|seat| prefetch(seat.entry.as_ptr()));
            self.pass_on_foreign();
        }
        if self.kept.is_empty() {
            self.patience = self.next_patience;
            self.next_patience = (2 * self.next_patience).min(MOST_PATIENCE);
            return false;
        }
        self.next_patience = LEAST_PATIENCE;
        true
    }

    /// Moves fetched seats that a bound thread cannot use to the empty outbox.
    fn pass_on_foreign(&mut self) {
        let Some(home) = self.bound_to else { return };
        debug_assert!(self.outbox.is_empty());
        for at in (0..self.kept.len()).rev() {
            // SAFETY: this thread is the vacancy's producer, so the entry is there.
            if unsafe { self.kept[at].entry.as_ref() }.shard() != home {
                self.outbox.push(self.kept.swap_remove(at));
            }
        }
    }

    fn make_room(
        &mut self,
        shared: &Shared<T>,
        free_list: &mut FreeList<T>,
        counters: &Counters,
    ) -> LeftDead {
        if !mem::take(&mut self.is_used) {
            // This thread cancels and does not schedule: others have more use for its seats.
            return give_away(&mut self.kept, shared, free_list, counters);
        }
        let latest = (0..self.kept.len()).max_by_key(|&i| self.kept[i].opens);
        let latest = self.kept.swap_remove(latest.expect("a full cache has seats"));
        self.pass_on(latest, shared, free_list, counters)
    }

    fn pass_on(
        &mut self,
        seat: Seat<T>,
        shared: &Shared<T>,
        free_list: &mut FreeList<T>,
        counters: &Counters,
    ) -> LeftDead {
        let dead = match self.outbox.len() {
            SEATS => give_away(&mut self.outbox, shared, free_list, counters),
            _ => LeftDead::NONE,
        };
        self.outbox.push(seat);
        dead
    }
}

/// Leaves seats in the depot or lets go of them; `seats` is empty afterwards.
fn give_away<T>(
    seats: &mut Magazine<Seat<T>>,
    shared: &Shared<T>,
    free_list: &mut FreeList<T>,
    counters: &Counters,
) -> LeftDead {
    if seats.is_empty() {
        return LeftDead::NONE;
    }
    shared.publish(counters);
    if shared.seats.leave(seats) {
        return LeftDead::NONE;
    }
    let mut shard = None;
    // Published a run at a time: the seats of a thread are mostly of one shard.
    let mut run = 0;
    for Seat { entry, .. } in seats.drain(..) {
        // SAFETY: this thread keeps the seat, so the entry is there.
        let this = unsafe { entry.as_ref() };
        let home = this.shard();
        // SAFETY: this thread keeps the seat and forgets it here.
        if unsafe { this.let_go() } {
            // SAFETY: the list had already let go, so it is held here alone; a seat has no payload.
            unsafe { free_list.put(shared, entry) };
            continue;
        }
        counters.add(Count::Dead, 1);
        if let Some(before) = shard.replace(home).filter(|&before| before != home) {
            shared.leave_dead(before, mem::take(&mut run));
        }
        run += 1;
    }
    if let Some(last) = shard {
        shared.leave_dead(last, run);
    }
    LeftDead(shard.is_some())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn seat(opens: u64) -> Seat<()> {
        Seat { entry: Entry::allocate(0), opens: Tick::new(opens) }
    }

    /// How many timers get no seat after others left some in a depot found empty so often.
    fn unserved(found_empty: usize) -> usize {
        // SAFETY: everything built on it uses no other, and is closed before it is dropped.
        let shared = unsafe { Shared::new(0, 1, None) };
        let mut seats = Seats::new(&shared);
        let counters = shared.all_counters.claim();
        for _ in 0..found_empty {
            while seats.patience > 0 {
                assert!(seats.pick(&shared, &counters, Tick::NEVER).is_none());
            }
            assert!(seats.pick(&shared, &counters, Tick::NEVER).is_none());
        }
        assert!(shared.seats.leave(&mut Box::new(vec![seat(1), seat(2)])));
        let served = (0..).find_map(|n| Some((n, seats.pick(&shared, &counters, Tick::NEVER)?)));
        let (unserved, entry) = served.expect("sooner or later it asks again");
        // SAFETY: it is in no list, and ours.
        unsafe { Entry::free(entry) };
        assert!(shared.seats.leave(&mut seats.kept), "the shared frees the other");
        unserved
    }

    #[test]
    fn an_empty_depot_is_asked_again_after_eight_timers_and_then_ever_later() {
        let patience: Vec<usize> = (0..8).map(unserved).collect();
        assert_eq!(patience, [0, 8, 16, 32, 64, 128, 128, 128]);
    }

    #[test]
    fn a_depot_that_had_seats_is_asked_again_as_soon_as_at_first() {
        // SAFETY: everything built on it uses no other, and is closed before it is dropped.
        let shared = unsafe { Shared::new(0, 1, None) };
        let mut seats = Seats::new(&shared);
        let counters = shared.all_counters.claim();
        for _ in 0..100 {
            assert!(seats.pick(&shared, &counters, Tick::NEVER).is_none());
        }
        assert!(seats.next_patience > LEAST_PATIENCE);
        seats.patience = 0;
        assert!(shared.seats.leave(&mut Box::new(vec![seat(1)])));
        let entry = seats.pick(&shared, &counters, Tick::NEVER).expect("it was left there");
        // SAFETY: it is in no list, and ours.
        unsafe { Entry::free(entry) };
        assert_eq!(seats.next_patience, LEAST_PATIENCE);
    }

    #[test]
    fn a_thread_that_schedules_keeps_its_earliest_seats_and_passes_on_the_latest() {
        // SAFETY: everything built on it uses no other, and is closed before it is dropped.
        let shared = unsafe { Shared::new(0, 1, None) };
        let (mut seats, mut free_list) = (Seats::new(&shared), FreeList::new(&shared));
        let counters = shared.all_counters.claim();
        let mut kept = 0;
        // In no order: 37 generates the numbers below 101.
        for i in 0..SEATS as u64 + 8 {
            seats.is_used = true;
            assert_eq!(
                seats.keep(seat(i * 37 % 101), &shared, &mut free_list, &counters),
                LeftDead::NONE
            );
            kept += 1;
            assert_eq!(seats.kept.len() + seats.outbox.len(), kept);
            assert!(seats.outbox.is_empty() || seats.kept.len() == SEATS);
        }
        let (newest, others) = seats.kept.split_last().expect("it is full");
        assert_eq!(newest.opens, Tick::new((SEATS as u64 + 7) * 37 % 101));
        let passed_on = seats.outbox.last().expect("there were too many").opens;
        assert!(others.iter().all(|seat| seat.opens < passed_on));
        assert_eq!(
            seats.clear(&shared, &mut free_list, &counters),
            LeftDead::NONE,
            "the depot has room"
        );
        assert_eq!(seats.kept.len() + seats.outbox.len(), 0);
    }

    #[test]
    fn a_thread_that_only_cancels_leaves_all_its_seats_at_once() {
        // SAFETY: everything built on it uses no other, and is closed before it is dropped.
        let shared = unsafe { Shared::new(0, 1, None) };
        let (mut seats, mut free_list) = (Seats::new(&shared), FreeList::new(&shared));
        let counters = shared.all_counters.claim();
        for i in 0..=SEATS as u64 {
            assert_eq!(seats.keep(seat(i), &shared, &mut free_list, &counters), LeftDead::NONE);
        }
        assert_eq!((seats.kept.len(), seats.outbox.len()), (1, 0), "the last came after");
        let mut fetched = shared.seats.magazine();
        assert!(shared.seats.fetch(&mut fetched));
        assert_eq!(fetched.len(), SEATS);
        assert!(shared.seats.leave(&mut fetched) && shared.seats.leave(&mut seats.kept));
    }
}
