//! Counters with one writer each, summed when somebody asks.
//!
//! Each thread counts on a tally of its own, and each reaper on one. When a thread ends, its
//! tally stays in the list with what it counted and serves the next new thread.
//!
//! *Owner*: whoever claimed a tally writes it; anyone reads.

use std::array;
use std::fmt;
use std::ptr;

use crate::sync::{Arc, AtomicBool, AtomicPtr, Counter, Ordering, Padded};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Timers scheduled in an entry of their own.
    Filed,
    /// Timers scheduled in the seat of a cancelled one.
    Seated,
    /// Timers cancelled before they fired.
    Cancelled,
    /// Timers moved to another time.
    Reset,
    /// Timers fired.
    Fired,
    /// Payloads given back when the engine stopped.
    Returned,
    /// Vacancies that nobody keeps: dead until their bucket opens or is swept.
    Dead,
    /// Dead entries that the reaper found and reused.
    Buried,
    /// Entries moved to a lower level.
    Cascaded,
    /// Payloads whose handler panicked.
    Panicked,
    /// Times that the reaper's sleep ended.
    WokeUp,
    /// Payloads that kept the reaper for too long.
    Slow,
    /// Times that the reaper fell too far behind.
    Saturated,
}

const COUNTS: usize = Count::Saturated as usize + 1;

/// What begins something that another count ends.
const BEGINNINGS: [Count; 3] = [Count::Filed, Count::Seated, Count::Dead];

/// One writer's counters.
#[derive(Debug)]
pub struct Tally {
    counts: Padded<[Counter; COUNTS]>,
    claimed: AtomicBool,
}

/// The sums over all writers, as they stood at about one time.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    sums: [u64; COUNTS],
}

/// All tallies of an engine: a list that only grows.
pub struct Tallies {
    first: AtomicPtr<Link>,
}

struct Link {
    tally: Arc<Tally>,
    next: *mut Link,
}

// SAFETY: links are published once, never change afterwards, and live as long as the list.
unsafe impl Send for Tallies {}
// SAFETY: as above.
unsafe impl Sync for Tallies {}

// === impl Tally ===

impl Tally {
    /// Adds to a counter. Only the tally's one writer may call this.
    #[inline]
    pub fn add(&self, count: Count, n: u64) {
        let counter = &self.counts[count as usize];
        // ORDER: Relaxed - one writer, so no update is lost; readers want a number, not order.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Reads a counter.
    #[inline]
    pub fn get(&self, count: Count) -> u64 {
        // ORDER: Relaxed - as in `add`.
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    /// Ends the writer's use of the tally; what it counted stays counted.
    pub fn hand_back(&self) {
        // ORDER: Release - pairs with the Acquire in `Tallies::claim`: the next writer goes on
        // from our last values.
        self.claimed.store(false, Ordering::Release);
    }
}

// === impl Tallies ===

impl Tallies {
    /// No writer yet.
    pub fn new() -> Tallies {
        Tallies { first: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A tally for a new writer.
    pub fn claim(&self) -> Arc<Tally> {
        for tally in self.iter() {
            // ORDER: Acquire - pairs with the Release in `hand_back`; Relaxed: not ours.
            let free =
                tally.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            if free.is_ok() {
                return tally.clone();
            }
        }
        let tally = Arc::new(Tally {
            counts: Padded(array::from_fn(|_| Counter::new(0))),
            claimed: AtomicBool::new(true),
        });
        // ORDER: Acquire - pairs with the Release below of whoever pushed it.
        let mut first = self.first.load(Ordering::Acquire);
        let link = Box::into_raw(Box::new(Link { tally: tally.clone(), next: first }));
        // ORDER: Release publishes the link; Acquire - as above.
        while let Err(now) =
            self.first.compare_exchange_weak(first, link, Ordering::Release, Ordering::Acquire)
        {
            first = now;
            // SAFETY: the link is not published yet, so it is ours alone.
            unsafe { (*link).next = first };
        }
        tally
    }

    /// The sum over all writers.
    pub fn sum(&self, count: Count) -> u64 {
        self.add_up([count])[0]
    }

    /// All sums, in two passes over the writers: what ended a timer before what began it, as in
    /// [`Tallies::pending`].
    pub fn sums(&self) -> Sums {
        let mut sums = [0_u64; COUNTS];
        for tally in self.iter() {
            for (sum, counter) in sums.iter_mut().zip(tally.counts.iter()) {
                // ORDER: Relaxed - as in `Tally::add`.
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        for (count, sum) in BEGINNINGS.iter().zip(self.add_up(BEGINNINGS)) {
            sums[*count as usize] = sum;
        }
        Sums { sums }
    }

    /// Timers that are pending: scheduled and not yet cancelled, fired or returned.
    ///
    /// What ended a timer is read before what began it, so that a timer that comes and goes
    /// between the two readings is never counted as ended only.
    pub fn pending(&self) -> u64 {
        let ended = self.add_up([Count::Cancelled, Count::Fired, Count::Returned]);
        self.scheduled().saturating_sub(ended.iter().sum())
    }

    /// Timers that were scheduled.
    pub fn scheduled(&self) -> u64 {
        let [filed, seated] = self.add_up([Count::Filed, Count::Seated]);
        filed.wrapping_add(seated)
    }

    /// Dead entries that nobody has buried yet.
    pub fn dead(&self) -> u64 {
        let buried = self.sum(Count::Buried);
        self.sum(Count::Dead).saturating_sub(buried)
    }

    /// The sums of several counts over all writers, in one pass.
    fn add_up<const N: usize>(&self, counts: [Count; N]) -> [u64; N] {
        self.iter().fold([0; N], |sums, tally| {
            array::from_fn(|i| sums[i].wrapping_add(tally.get(counts[i])))
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Tally>> {
        // ORDER: Acquire - pairs with the Release in `claim`.
        let mut link = self.first.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: a published link is never freed or changed while the list lives.
            let this = unsafe { link.as_ref() }?;
            link = this.next;
            Some(&this.tally)
        })
    }
}

impl Default for Tallies {
    fn default() -> Tallies {
        Tallies::new()
    }
}

impl Drop for Tallies {
    fn drop(&mut self) {
        // ORDER: Acquire - as in `iter`; nobody else is left.
        let mut link = self.first.load(Ordering::Acquire);
        while !link.is_null() {
            // SAFETY: every link came from a box, and the list is going.
            let this = unsafe { Box::from_raw(link) };
            link = this.next;
        }
    }
}

impl fmt::Debug for Tallies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tallies").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

// === impl Sums ===

impl Sums {
    /// One of them.
    pub fn get(&self, count: Count) -> u64 {
        self.sums[count as usize]
    }

    /// As [`Tallies::pending`].
    pub fn pending(&self) -> u64 {
        let ended = [Count::Cancelled, Count::Fired, Count::Returned].map(|count| self.get(count));
        self.scheduled().saturating_sub(ended.iter().sum())
    }

    /// As [`Tallies::scheduled`].
    pub fn scheduled(&self) -> u64 {
        self.get(Count::Filed).wrapping_add(self.get(Count::Seated))
    }

    /// As [`Tallies::dead`].
    pub fn dead(&self) -> u64 {
        self.get(Count::Dead).saturating_sub(self.get(Count::Buried))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_tally_that_was_handed_back_serves_the_next_writer_and_keeps_its_sums() {
        let tallies = Tallies::new();
        let first = tallies.claim();
        first.add(Count::Filed, 3);
        let second = tallies.claim();
        second.add(Count::Cancelled, 1);
        assert!(!Arc::ptr_eq(&first, &second));
        first.hand_back();
        let third = tallies.claim();
        assert!(Arc::ptr_eq(&first, &third));
        third.add(Count::Seated, 2);
        assert_eq!(tallies.scheduled(), 5);
        assert_eq!(tallies.pending(), 4);
        let sums = tallies.sums();
        assert_eq!((sums.scheduled(), sums.pending(), sums.get(Count::Cancelled)), (5, 4, 1));
    }
}
