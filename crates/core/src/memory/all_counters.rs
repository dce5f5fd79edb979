//! All counters of an engine, summed on demand.
//!
//! Each thread and each reaper has a set of counters of its own. When a thread ends, its set keeps
//! its counts and serves the next new thread. So there are about as many sets as there were threads
//! at a time.
//!
//! *Owner*: any thread claims a set of counters and hands it back; any thread sums, in O(n) in the
//! sets. Nothing that a timer waits for sums: decisions use [`Balance`](super::balance::Balance).
//!
//! *Invariants*: a set is never removed while the list lives. It is free or has one writer, who
//! claimed it by a CAS.
//!
//! *Orderings*: COUNTERS.
//!
//! *Tested by*: `loom-tests/tests/counters.rs`.

use std::ptr;

use crate::sync::{Arc, Counter, GrowingList, Hint, IS_CHECKED, Ordering};

use super::counters::{COUNTS, Count, Counters, PASSES};

/// The sums over all writers, as they stood at about one time.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    sums: [u64; COUNTS],
}

/// All counters of an engine.
#[derive(Default)]
pub struct AllCounters {
    sets: GrowingList<Arc<Counters>>,
    /// How many sets there are.
    made: Counter,
    /// How many of them are free, about: a thread that finds none does not look for one.
    free: Hint,
}

// === impl AllCounters ===

impl AllCounters {
    /// A set of counters for a new writer. O(1) if none is free, else O(n) in the sets.
    pub fn claim(&self) -> Arc<Counters> {
        let counters = match self.claim_free() {
            Some(counters) => counters,
            None => {
                // ORDER: Relaxed - a number that only grows.
                self.made.fetch_add(1, Ordering::Relaxed);
                self.sets.add(Arc::new(Counters::claimed()))
            }
        };
        counters.note_writer();
        counters.clone()
    }

    /// Ends the writer's use of a set of counters; what it counted stays counted.
    pub fn hand_back(&self, counters: &Counters) {
        counters.note_writer();
        counters.hand_back();
        // ORDER: Relaxed - the set itself says whether it is free.
        self.free.fetch_add(1, Ordering::Relaxed);
    }

    /// The same set of counters, for as long as all of them live.
    ///
    /// # Safety
    /// It was claimed here.
    #[inline]
    pub unsafe fn lasting<'a>(&'a self, counters: &Counters) -> &'a Counters {
        // (A model checker would look at each link.)
        let is_ours = |it: &Arc<Counters>| ptr::eq(&**it, counters);
        debug_assert!(IS_CHECKED || self.sets.iter().any(is_ours), "it is another's");
        // SAFETY: the list keeps it, and removes nothing while it lives.
        unsafe { &*ptr::from_ref(counters) }
    }

    fn claim_free(&self) -> Option<&Arc<Counters>> {
        // ORDER: Relaxed, here and below - the set itself says whether it is free. A thread that
        // misses a set which was handed back just now makes one more.
        if self.free.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let claimed = self.sets.iter().find(|counters| counters.claim())?;
        self.free.fetch_sub(1, Ordering::Relaxed);
        Some(claimed)
    }

    /// How many writers there were at a time, at most. O(1).
    pub fn writers(&self) -> u64 {
        // ORDER: Relaxed - a number that only grows.
        self.made.load(Ordering::Relaxed)
    }

    /// The sums over all writers.
    ///
    /// The counts that end a timer are read before those that begin it. So a timer that comes and
    /// goes between the two reads is never counted as ended only. Those that were armed again are
    /// read before both, so that no more of them are subtracted than were counted.
    pub fn sums(&self) -> Sums {
        let mut sums = [0_u64; COUNTS];
        for pass in PASSES {
            for counters in self.iter() {
                for &count in pass {
                    let sum = &mut sums[count as usize];
                    *sum = sum.wrapping_add(counters.get(count));
                }
            }
        }
        Sums { sums }
    }

    /// As [`Sums::pending`].
    pub fn pending(&self) -> u64 {
        self.sums().pending()
    }

    /// As [`Sums::dead`].
    pub fn dead(&self) -> u64 {
        self.sums().dead()
    }

    /// The changes in living timers that writers have not published yet, for checks. It wraps.
    pub(super) fn unpublished_living(&self) -> u64 {
        self.iter().fold(0, |sum, counters| sum.wrapping_add(counters.unpublished().living))
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Counters>> {
        #[cfg(test)]
        visits::begin();
        self.sets.iter()
    }
}

debug! { impl[] AllCounters[] { pending = |this| this.pending() } }

// === impl Sums ===

impl Sums {
    /// The sum of one count.
    pub fn get(&self, count: Count) -> u64 {
        self.sums[count as usize]
    }

    /// Timers that are pending: scheduled and not yet cancelled, fired or returned.
    pub fn pending(&self) -> u64 {
        let ended = [Count::Cancelled, Count::Fired, Count::Returned].map(|count| self.get(count));
        self.filed_and_seated().saturating_sub(ended.iter().sum())
    }

    /// Timers that were scheduled, but not those that were armed again.
    pub fn scheduled(&self) -> u64 {
        self.filed_and_seated().saturating_sub(self.get(Count::Rearmed))
    }

    /// Timers that were handed over, but not those that were armed again.
    pub fn fired(&self) -> u64 {
        self.get(Count::Fired).saturating_sub(self.get(Count::Rearmed))
    }

    /// Timers that have fired and whose handle is still there. (A handle may have let go in the
    /// middle of the sums, before its timer was counted.)
    pub fn unended(&self) -> u64 {
        (self.get(Count::Unended) as i64).max(0) as u64
    }

    fn filed_and_seated(&self) -> u64 {
        self.get(Count::Filed).wrapping_add(self.get(Count::Seated))
    }

    /// Dead entries that nobody has buried yet.
    pub fn dead(&self) -> u64 {
        self.get(Count::Dead).saturating_sub(self.get(Count::Buried))
    }
}

/// How often the calling thread walked all counters.
#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local!(static VISITS: Cell<usize> = const { Cell::new(0) });

    pub(super) fn begin() {
        VISITS.set(VISITS.get() + 1);
    }

    pub(crate) fn count() -> usize {
        VISITS.get()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_was_handed_back_serves_the_next_writer_and_keeps_its_sums() {
        let all_counters = AllCounters::default();
        let first = all_counters.claim();
        first.add(Count::Filed, 3);
        let second = all_counters.claim();
        second.add(Count::Cancelled, 1);
        assert!(!Arc::ptr_eq(&first, &second));
        all_counters.hand_back(&first);
        let third = all_counters.claim();
        assert!(Arc::ptr_eq(&first, &third));
        third.add(Count::Seated, 2);
        assert_eq!(all_counters.sums().scheduled(), 5);
        assert_eq!(all_counters.pending(), 4);
        let sums = all_counters.sums();
        assert_eq!((sums.scheduled(), sums.pending(), sums.get(Count::Cancelled)), (5, 4, 1));
    }

    #[test]
    fn there_are_as_many_as_there_were_writers_at_a_time() {
        let all_counters = AllCounters::default();
        for (writers, most) in [(1, 1), (8, 8), (9, 9), (1000, 1000), (3, 1000)] {
            for _ in 0..3 {
                let claimed: Vec<Arc<Counters>> =
                    (0..writers).map(|_| all_counters.claim()).collect();
                let mut sets: Vec<_> = claimed.iter().map(Arc::as_ptr).collect();
                sets.sort_unstable();
                sets.dedup();
                assert_eq!(sets.len(), writers, "each writer has one of its own");
                claimed.iter().for_each(|counters| all_counters.hand_back(counters));
            }
            assert_eq!((all_counters.iter().count(), all_counters.writers()), (most, most as u64));
        }
    }
}
