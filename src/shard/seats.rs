//! A thread's cache of seats: vacancies that it keeps, ready for the next timer.
//!
//! A timer takes the seat that was left last (its memory is the warmest) of those that open early
//! enough for it. A cache that is full moves its latest seat, which the fewest timers can use, to
//! an outbox that other threads fetch through the depot; where that is full too, the outbox is let
//! go and its seats are dead. So the seats that stay are the ones that open early, and nearly
//! every timer finds one at the first look. A thread that cancels and does not schedule has no use
//! for any: it leaves the whole cache each time that it is full.
//!
//! *Owner*: one thread, which is the keeper of every seat in it (SEAT).

use std::mem;
use std::ptr::NonNull;

use crate::depot::Magazine;
use crate::entry::Entry;
use crate::sync::prefetch;
use crate::time::Tick;

use super::{Count, Pool, Stock, Tally};

/// Seats in a cache, and in a magazine of seats.
pub(super) const SEATS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 32 };

/// Timers for which a depot that was empty is not asked again: at first, and in the end.
const LEAST_PATIENCE: usize = 8;
const MOST_PATIENCE: usize = 128;

/// A kept vacancy, and from when on its bucket serves a deadline.
pub(super) struct Seat<T> {
    pub(super) entry: NonNull<Entry<T>>,
    pub(super) opens: Tick,
}

// SAFETY: a seat has no payload, and whoever has the `Seat` is the vacancy's keeper.
unsafe impl<T: Send> Send for Seat<T> {}

/// The seats that a thread keeps.
pub(super) struct Seats<T> {
    /// Left last, taken first.
    kept: Magazine<Seat<T>>,
    /// On the way to other threads.
    outbox: Magazine<Seat<T>>,
    /// Timers to go before an empty depot is asked again, and then after the next time.
    patience: usize,
    next_patience: usize,
    /// Whether somebody came for a seat since the cache was last full.
    is_used: bool,
}

// === impl Seats ===

impl<T> Seats<T> {
    /// No seats yet.
    pub(super) fn new(pool: &Pool<T>) -> Seats<T> {
        Seats {
            kept: pool.seats.magazine(),
            outbox: pool.seats.magazine(),
            patience: 0,
            next_patience: LEAST_PATIENCE,
            is_used: false,
        }
    }

    /// A seat for `deadline`.
    #[inline]
    pub(super) fn pick(&mut self, pool: &Pool<T>, deadline: Tick) -> Option<NonNull<Entry<T>>> {
        match self.kept.last() {
            Some(last) if last.opens <= deadline => {
                self.is_used = true;
                self.kept.pop().map(|seat| seat.entry)
            }
            None if self.patience > 0 => {
                self.patience -= 1;
                None
            }
            _ => self.search(pool, deadline),
        }
    }

    #[cold]
    fn search(&mut self, pool: &Pool<T>, deadline: Tick) -> Option<NonNull<Entry<T>>> {
        if self.kept.is_empty() && !self.refill(pool) {
            return None;
        }
        self.is_used = true;
        let at = self.kept.iter().rposition(|seat| seat.opens <= deadline)?;
        Some(self.kept.swap_remove(at).entry)
    }

    /// Keeps a seat. Where others had to be let go for it, the answer is a shard that holds one
    /// of the dead.
    #[inline]
    pub(super) fn keep(
        &mut self,
        seat: Seat<T>,
        pool: &Pool<T>,
        stock: &mut Stock<T>,
        tally: &Tally,
    ) -> Option<u32> {
        let dead = match self.kept.len() {
            SEATS => self.make_room(pool, stock, tally),
            _ => None,
        };
        self.kept.push(seat);
        dead
    }

    /// Gives all seats to the depot, or lets go of them; answers as `keep`.
    pub(super) fn clear(
        &mut self,
        pool: &Pool<T>,
        stock: &mut Stock<T>,
        tally: &Tally,
    ) -> Option<u32> {
        let kept = give_away(&mut self.kept, pool, stock, tally);
        let outbox = give_away(&mut self.outbox, pool, stock, tally);
        kept.or(outbox)
    }

    fn refill(&mut self, pool: &Pool<T>) -> bool {
        if !self.outbox.is_empty() {
            mem::swap(&mut self.kept, &mut self.outbox);
        } else if pool.seats.fetch(&mut self.kept) {
            self.next_patience = LEAST_PATIENCE;
            // They come from another core: let all come at once.
            self.kept.iter().for_each(|seat| prefetch(seat.entry.as_ptr()));
        } else {
            self.patience = self.next_patience;
            self.next_patience = (2 * self.next_patience).min(MOST_PATIENCE);
            return false;
        }
        true
    }

    #[cold]
    fn make_room(&mut self, pool: &Pool<T>, stock: &mut Stock<T>, tally: &Tally) -> Option<u32> {
        if !mem::take(&mut self.is_used) {
            // This thread cancels and does not schedule: others have more use for them all.
            return give_away(&mut self.kept, pool, stock, tally);
        }
        let dead = match self.outbox.len() {
            SEATS => give_away(&mut self.outbox, pool, stock, tally),
            _ => None,
        };
        let latest = (0..self.kept.len()).max_by_key(|&i| self.kept[i].opens);
        self.outbox.push(self.kept.swap_remove(latest.expect("a full cache has seats")));
        dead
    }
}

/// Leaves seats in the depot, or lets go of them; there are none afterwards.
fn give_away<T>(
    seats: &mut Magazine<Seat<T>>,
    pool: &Pool<T>,
    stock: &mut Stock<T>,
    tally: &Tally,
) -> Option<u32> {
    if seats.is_empty() || pool.seats.leave(seats) {
        return None;
    }
    let mut shard = None;
    for Seat { entry, .. } in seats.drain(..) {
        // SAFETY: this thread keeps the seat, so the entry is there.
        let this = unsafe { entry.as_ref() };
        let home = this.shard();
        // SAFETY: this thread keeps the seat and forgets it here.
        if unsafe { this.let_go() } {
            stock.put(pool, entry);
        } else {
            tally.add(Count::Dead, 1);
            pool.leave_unswept(home);
            shard = Some(home);
        }
    }
    shard
}
