//! A thread's stock: vacancies that it keeps for its next timers (*seats*), free entries, and its
//! counters.
//!
//! A timer takes the newest seat (its memory is the warmest) of those that open early enough, and
//! not yet: a seat in a bucket that is due serves nobody, because a later timer would wait in there
//! if it is a crowd. When there are too many seats, the one that opens last, which the fewest
//! timers can use, goes to the *outgoing* magazine, which other threads fetch through the depot. If
//! the depot takes no more (its size depends on how many timers live), the magazine is let go and
//! its seats are dead. So the seats that open early stay, and nearly every timer finds one at the
//! first look. A thread that cancels and does not schedule gives away all its seats when it has too
//! many.
//!
//! A seat stays in its shard, and so does the timer that takes it. A thread that is bound to a
//! shard therefore keeps only seats of that shard: others go to the outgoing magazine.
//!
//! *Owner*: one thread, which is the producer of every seat in it (SEAT).

use std::iter;
use std::mem;
use std::ptr::NonNull;

use crate::entry::Entry;
use crate::sync::{Arc, prefetch_to_write};
use crate::time::Tick;

use super::counters::{Count, Counters};
use super::depot::Magazine;
use super::free_list::FreeList;
use super::items::{SEATS, Seat};
use super::shared::Shared;

/// How many timers a thread schedules before it asks an empty depot again: at first, and at most.
const LEAST_PATIENCE: usize = 8;
const MOST_PATIENCE: usize = 128;

/// What a thread keeps of the memory. A call that may let go of filed seats returns whether it did:
/// they are now dead entries of their shards.
pub(crate) struct Stock<T> {
    pub(crate) free_list: FreeList<T>,
    pub(crate) counters: Arc<Counters>,
    /// Left last, taken first.
    kept: Magazine<Seat<T>>,
    /// On the way to other threads.
    outgoing: Magazine<Seat<T>>,
    /// Timers left until an empty depot is asked again, and the value for the next time.
    patience: usize,
    next_patience: usize,
    /// Whether a timer took a seat since there were last too many.
    is_used: bool,
    /// The shard that the thread is bound to.
    bound_to: Option<u32>,
    /// Up to this many, seats are kept without a check: a bound thread checks each.
    unchecked_room: usize,
}

// === impl Stock ===

impl<T> Stock<T> {
    /// An empty stock for a thread that schedules in shard `home`.
    pub(crate) fn new(shared: &Shared<T>, home: u32) -> Stock<T> {
        Stock {
            free_list: FreeList::new(shared, home),
            counters: shared.all_counters.claim(),
            kept: shared.seats.magazine(home),
            outgoing: shared.seats.magazine(home),
            patience: 0,
            next_patience: LEAST_PATIENCE,
            is_used: false,
            bound_to: None,
            unchecked_room: SEATS,
        }
    }

    /// Uses only seats of `shard` from now on: gives away those that there are.
    #[must_use = "a sweep may be due"]
    pub(crate) fn bind(&mut self, shared: &Shared<T>, shard: u32) -> bool {
        if self.bound_to == Some(shard) {
            return false;
        }
        (self.bound_to, self.unchecked_room) = (Some(shard), 0);
        self.free_list.move_to(shard);
        self.give_away_seats(shared)
    }

    /// A seat for `deadline`; buckets that open by `due` are due.
    #[inline]
    pub(crate) fn pick(
        &mut self,
        shared: &Shared<T>,
        deadline: Tick,
        due: impl Fn() -> Tick,
    ) -> Option<NonNull<Entry<T>>> {
        match self.kept.last() {
            Some(last) if last.opens <= deadline && last.opens > due() => {
                let entry = last.entry;
                self.kept.pop();
                self.is_used = true;
                Some(entry)
            }
            None if self.patience > 0 => {
                self.patience -= 1;
                None
            }
            _ => self.search(shared, deadline, due()),
        }
    }

    #[cold]
    fn search(
        &mut self,
        shared: &Shared<T>,
        deadline: Tick,
        due: Tick,
    ) -> Option<NonNull<Entry<T>>> {
        if self.kept.is_empty() && !self.refill(shared) {
            return None;
        }
        self.is_used = true;
        let serves = |seat: &Seat<T>| seat.opens <= deadline;
        let mut at = self.kept.iter().rposition(serves)?;
        if self.kept[at].opens <= due {
            self.leave_due(shared, due);
            at = self.kept.iter().rposition(serves)?;
        }
        Some(self.kept.swap_remove(at).entry)
    }

    /// Lets go of the seats in buckets that are due. No sweep is asked for: the owners of their
    /// shards reach these buckets anyway.
    #[inline(never)]
    fn leave_due(&mut self, shared: &Shared<T>, due: Tick) {
        let Stock { kept, free_list, counters, .. } = self;
        let in_due = iter::from_fn(|| {
            let at = kept.iter().rposition(|seat| seat.opens <= due)?;
            Some(kept.swap_remove(at))
        });
        let _ = let_go(in_due, shared, free_list, counters);
    }

    /// Keeps a seat if that takes no check.
    #[inline]
    pub(crate) fn keep_unchecked(&mut self, seat: Seat<T>) -> Result<(), Seat<T>> {
        if self.kept.len() >= self.unchecked_room {
            return Err(seat);
        }
        self.kept.push(seat);
        Ok(())
    }

    /// Keeps a seat. Others may be let go for it.
    #[must_use = "a sweep may be due"]
    pub(crate) fn keep(&mut self, shared: &Shared<T>, seat: Seat<T>) -> bool {
        // SAFETY: this thread is the vacancy's producer, so the entry is there.
        if self.bound_to.is_some_and(|home| unsafe { seat.entry.as_ref() }.shard() != home) {
            return self.pass_on(shared, seat);
        }
        let has_left_dead = self.kept.len() == SEATS && self.make_room(shared);
        self.kept.push(seat);
        has_left_dead
    }

    /// Gives away everything, and publishes the counts.
    #[must_use = "a sweep may be due"]
    pub(crate) fn clear(&mut self, shared: &Shared<T>) -> bool {
        let has_left_dead = self.give_away_seats(shared);
        self.free_list.clear(shared);
        shared.balance.publish_counts(&self.counters);
        has_left_dead
    }

    fn refill(&mut self, shared: &Shared<T>) -> bool {
        if !self.outgoing.is_empty() && self.bound_to.is_none() {
            mem::swap(&mut self.kept, &mut self.outgoing);
            return true;
        }
        // A bound thread needs its outgoing for what it fetches and cannot use.
        let has_room = leave(&mut self.outgoing, shared);
        if has_room && shared.seats.fetch(self.free_list.home(), &mut self.kept) {
            // The timers that take these seats are published with the next magazine.
            shared.balance.publish_if_much(&self.counters, shared.all_counters.writers());
            // They come from another core: prefetch all at once, in steps of a constant length,
            // which become no loops. (Up to three that are taken last are left out.)
            for seats in self.kept.rchunks_exact(4) {
                seats.iter().for_each(|seat| prefetch_to_write(seat.entry.addr().get()));
            }
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

    /// Moves fetched seats that a bound thread cannot use to the empty outgoing.
    fn pass_on_foreign(&mut self) {
        let Some(home) = self.bound_to else { return };
        debug_assert!(self.outgoing.is_empty());
        for at in (0..self.kept.len()).rev() {
            // SAFETY: this thread is the vacancy's producer, so the entry is there.
            if unsafe { self.kept[at].entry.as_ref() }.shard() != home {
                self.outgoing.push(self.kept.swap_remove(at));
            }
        }
    }

    fn make_room(&mut self, shared: &Shared<T>) -> bool {
        if !mem::take(&mut self.is_used) {
            // This thread cancels and does not schedule: others have more use for its seats.
            return give_away(&mut self.kept, shared, &mut self.free_list, &self.counters);
        }
        let latest = (0..self.kept.len()).max_by_key(|&i| self.kept[i].opens);
        let latest = self.kept.swap_remove(latest.expect("a full stock has seats"));
        self.pass_on(shared, latest)
    }

    fn pass_on(&mut self, shared: &Shared<T>, seat: Seat<T>) -> bool {
        let has_left_dead = self.outgoing.len() == SEATS
            && give_away(&mut self.outgoing, shared, &mut self.free_list, &self.counters);
        self.outgoing.push(seat);
        has_left_dead
    }

    fn give_away_seats(&mut self, shared: &Shared<T>) -> bool {
        let (free_list, counters) = (&mut self.free_list, &self.counters);
        let has_left_dead = give_away(&mut self.kept, shared, free_list, counters);
        give_away(&mut self.outgoing, shared, free_list, counters) || has_left_dead
    }
}

/// The shard of the last seat: its threads have use for them. (Nearly always, all are of one.)
fn home_of<T>(seats: &Magazine<Seat<T>>) -> Option<u32> {
    // SAFETY: who has the seat is the vacancy's producer, so the entry is there.
    seats.last().map(|seat| unsafe { seat.entry.as_ref() }.shard())
}

/// Leaves seats in a depot, unless they are full.
fn leave<T>(seats: &mut Magazine<Seat<T>>, shared: &Shared<T>) -> bool {
    home_of(seats).is_none_or(|home| shared.leave_seats(home, seats))
}

/// Leaves seats in a depot or lets go of them; `seats` is empty afterwards. If fewer timers live
/// than when the depots were filled, also lets go of some of theirs. Returns whether that left dead
/// entries.
fn give_away<T>(
    seats: &mut Magazine<Seat<T>>,
    shared: &Shared<T>,
    free_list: &mut FreeList<T>,
    counters: &Counters,
) -> bool {
    let Some(home) = home_of(seats) else { return false };
    shared.balance.publish_if_much(counters, shared.all_counters.writers());
    if shared.leave_seats(home, seats) {
        return false;
    }
    let has_left_dead = let_go(seats.drain(..), shared, free_list, counters);
    // The number of magazines that this thread let go of, more or less.
    let nth = counters.get(Count::Dead) / SEATS as u64;
    let Some(mut surplus) = shared.surplus_seats(home, nth) else { return has_left_dead };
    let has_left_more = let_go(surplus.drain(..), shared, free_list, counters);
    shared.seats.keep_empty(home, surplus);
    has_left_dead || has_left_more
}

/// Lets go of seats; returns whether that left dead entries.
fn let_go<T>(
    seats: impl Iterator<Item = Seat<T>>,
    shared: &Shared<T>,
    free_list: &mut FreeList<T>,
    counters: &Counters,
) -> bool {
    let mut shard = None;
    // Published a run at a time: the seats of a thread are mostly of one shard.
    let mut run = 0;
    for Seat { entry, .. } in seats {
        // SAFETY: this thread keeps the seat, so the entry is there.
        let this = unsafe { entry.as_ref() };
        let home = this.shard();
        // SAFETY: this thread keeps the seat and forgets it here.
        if unsafe { Entry::let_go(entry) } {
            // SAFETY: the list had already let go, so it is held here alone; a seat has no payload.
            unsafe { free_list.put(shared, entry) };
            continue;
        }
        counters.add(Count::Dead, 1);
        if let Some(before) = shard.replace(home).filter(|&before| before != home) {
            shared.balance.leave_dead(before, mem::take(&mut run));
        }
        run += 1;
    }
    if let Some(last) = shard {
        shared.balance.leave_dead(last, run);
    }
    shard.is_some()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::depot::magazine_of;
    use super::super::shared::alone;
    use super::*;

    fn seat(opens: u64) -> Seat<()> {
        Seat { entry: Entry::allocate(0), opens: Tick::new(opens) }
    }

    /// Picks a seat that opens after time zero. Frees its entry; returns whether there was one.
    fn pick(stock: &mut Stock<()>, shared: &Shared<()>) -> bool {
        let entry = stock.pick(shared, Tick::NEVER, || Tick::ZERO);
        // SAFETY: it is in no list, and ours.
        entry.map(|entry| unsafe { Entry::free(entry) }).is_some()
    }

    /// Keeps a seat, as a cancel does.
    fn keep(stock: &mut Stock<()>, shared: &Shared<()>, opens: u64) {
        let kept = stock.keep_unchecked(seat(opens));
        assert!(!kept.is_err_and(|seat| stock.keep(shared, seat)), "the depot has room");
    }

    /// How many timers get no seat after others left some in a depot found empty so often.
    fn unserved(found_empty: usize) -> usize {
        let shared = alone(1);
        let mut stock = Stock::new(&shared, 0);
        for _ in 0..found_empty {
            while stock.patience > 0 {
                assert!(!pick(&mut stock, &shared));
            }
            assert!(!pick(&mut stock, &shared));
        }
        assert!(shared.seats.leave(0, &mut magazine_of(vec![seat(1), seat(2)])));
        let unserved = (0..).find(|_| pick(&mut stock, &shared)).expect("it asks again");
        assert_eq!(stock.next_patience, LEAST_PATIENCE, "it asks again as soon as at first");
        assert!(!stock.clear(&shared), "the depot frees the other");
        unserved
    }

    #[test]
    fn an_empty_depot_is_asked_again_after_eight_timers_and_then_ever_later() {
        let patience: Vec<usize> = (0..8).map(unserved).collect();
        assert_eq!(patience, [0, 8, 16, 32, 64, 128, 128, 128]);
    }

    #[test]
    fn a_thread_that_schedules_keeps_its_earliest_seats_and_passes_on_the_latest() {
        let shared = alone(1);
        let mut stock = Stock::new(&shared, 0);
        // In no order: 37 generates the numbers below 101.
        for i in 0..SEATS as u64 + 8 {
            stock.is_used = true;
            keep(&mut stock, &shared, i * 37 % 101);
            assert_eq!(stock.kept.len() + stock.outgoing.len(), i as usize + 1);
            assert!(stock.outgoing.is_empty() || stock.kept.len() == SEATS);
        }
        let (newest, others) = stock.kept.split_last().expect("it is full");
        assert_eq!(newest.opens, Tick::new((SEATS as u64 + 7) * 37 % 101));
        let passed_on = stock.outgoing.last().expect("there were too many").opens;
        assert!(others.iter().all(|seat| seat.opens < passed_on));
        assert!(!stock.clear(&shared), "the depot has room");
        assert_eq!(stock.kept.len() + stock.outgoing.len(), 0);
    }

    #[test]
    fn depots_take_a_seat_for_every_four_timers_that_live_and_always_some() {
        // A quarter for the shard, out of two, and a half for all.
        for (living, magazines) in [(0, 96), (8_000, 96), (25_600, 300), (1 << 20, 1536)] {
            let shared = alone(2);
            let counters = shared.all_counters.claim();
            counters.add(Count::Filed, living);
            shared.balance.publish_counts(&counters);
            let is_refused = |_: &usize| {
                let mut seats = magazine_of(vec![seat(1)]);
                let is_left = leave(&mut seats, &shared);
                // SAFETY: a seat that the depot did not take is in no list, and ours.
                seats.iter().for_each(|seat| unsafe { Entry::free(seat.entry) });
                !is_left
            };
            assert_eq!((0..).find(is_refused), Some(magazines), "{living} timers live");
            let mut seats = magazine_of(vec![seat(1)]);
            assert!(shared.leave_seats(1, &mut seats), "the other shard has a depot of its own");
        }
    }

    #[test]
    fn what_a_quiet_shard_has_too_much_of_is_let_go_by_others() {
        let shared = alone(2);
        let counters = shared.all_counters.claim();
        counters.add(Count::Filed, 51_200);
        shared.balance.publish_counts(&counters);
        for _ in 0..200 {
            assert!(shared.leave_seats(1, &mut magazine_of(vec![seat(1)])));
        }
        counters.add(Count::Cancelled, 51_200);
        shared.balance.publish_counts(&counters);
        let surplus = (0..1_000).filter_map(|nth| shared.surplus_seats(0, nth));
        // SAFETY: the seats are in no list, and ours.
        let free = |seat: &Seat<()>| unsafe { Entry::free(seat.entry) };
        let taken = surplus.inspect(|seats| seats.iter().for_each(free)).count();
        assert_eq!(taken, 200 - 32);
    }

    #[test]
    fn a_thread_that_only_cancels_leaves_all_its_seats_at_once() {
        let shared = alone(1);
        let mut stock = Stock::new(&shared, 0);
        (0..=SEATS as u64).for_each(|i| keep(&mut stock, &shared, i));
        assert_eq!((stock.kept.len(), stock.outgoing.len()), (1, 0), "the last came after");
        let mut fetched = shared.seats.magazine(0);
        assert!(shared.seats.fetch(0, &mut fetched));
        assert_eq!(fetched.len(), SEATS);
        assert!(shared.seats.leave(0, &mut fetched) && !stock.clear(&shared));
    }
}
