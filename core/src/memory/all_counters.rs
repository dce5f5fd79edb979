//! All counters of an engine, summed on demand.
//!
//! Each thread and each reaper has a set of counters of its own. When a thread ends, its set keeps
//! its counts and serves the next new thread. So there are as many sets as there were threads at a
//! time (or twice that, since they are made in segments that double).
//!
//! *Owner*: any thread claims a set of counters and hands it back; any thread sums, in O(n) in the
//! sets. Nothing that a timer waits for sums: decisions use [`Balance`](super::balance::Balance).
//!
//! *Invariants*: a segment is never removed while the list lives, so a number always leads to a
//! set. A set either is on the stack of free sets or has one writer.
//!
//! *Orderings*: COUNTERS. The free sets are a stack of numbers. Its head carries a stamp that each
//! CAS changes. So a thread that is delayed between reading the first set and its CAS of the head
//! does not put back an outdated second set. (A stamp returns after 2^32 CAS during one delay.)
//!
//! *Tested by*: `loom-tests/tests/counters.rs`.

use std::ptr;

use crate::sync::{Arc, AtomicPtr, AtomicU32, AtomicU64, IS_CHECKED, Ordering, publish_slice};

use super::counters::{COUNTS, Count, Counters, PASSES};

/// Sets in the first segment; each further segment has twice as many as the one before.
const FIRST: usize = if IS_CHECKED { 2 } else { 8 };

/// Enough for nearly 2^28 writers at a time; models have few.
const SEGMENTS: usize = if IS_CHECKED { 3 } else { 25 };

/// The sums over all writers, as they stood at about one time.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    sums: [u64; COUNTS],
}

/// All counters of an engine.
#[derive(Default)]
pub struct AllCounters {
    /// First places of the segments; null: not needed yet.
    segments: [AtomicPtr<CounterSet>; SEGMENTS],
    /// How many numbers were given out so far.
    given_out: AtomicU32,
    /// A [`Head`].
    free: AtomicU64,
}

/// A set of counters, and the number of the next free set.
struct CounterSet {
    counters: Arc<Counters>,
    /// A number plus one, or zero for the last. Only meaningful while the set is free.
    next: AtomicU32,
}

/// The head of the stack of free sets.
#[derive(Clone, Copy)]
struct Head {
    /// Changes with each CAS.
    stamp: u32,
    /// A number plus one, or zero if no set is free.
    first: u32,
}

// SAFETY: a segment is published once, its places may be shared, and it lives as long as the list.
unsafe impl Send for AllCounters {}
// SAFETY: as above.
unsafe impl Sync for AllCounters {}

// === impl Head ===

impl Head {
    fn of(word: u64) -> Head {
        Head { stamp: (word >> 32) as u32, first: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.stamp) << 32 | u64::from(self.first)
    }

    /// The head after a CAS.
    fn then(self, first: u32) -> Head {
        Head { stamp: self.stamp.wrapping_add(1), first }
    }
}

// === impl AllCounters ===

impl AllCounters {
    /// A set of counters for a new writer. O(1) in the number of sets, except for a call that makes
    /// a segment.
    pub fn claim(&self) -> Arc<Counters> {
        let counters = match self.claim_free() {
            Some(counters) => counters,
            None => {
                // ORDER(COUNTERS): Relaxed - a number that nobody else gets.
                let number = self.given_out.fetch_add(1, Ordering::Relaxed);
                let (segment, at) = segment_of(number);
                &self.make_segment(segment)[at].counters
            }
        };
        counters.note_writer();
        counters.clone()
    }

    /// Ends the writer's use of a set of counters; what it counted stays counted.
    pub fn hand_back(&self, counters: &Counters) {
        counters.note_writer();
        let place = self.place(counters.number);
        let push = |word| {
            let head = Head::of(word);
            // ORDER(COUNTERS): Relaxed - published by the CAS.
            place.next.store(head.first, Ordering::Relaxed);
            Some(head.then(counters.number + 1).word())
        };
        // ORDER(COUNTERS): Release - pairs with the Acquire in `claim_free`: the next writer
        // continues from our last values, and the place tells which set is next. Relaxed - the head
        // is only used if the CAS finds it unchanged.
        let _ = self.free.fetch_update(Ordering::Release, Ordering::Relaxed, push);
    }

    /// The same set of counters, for as long as all of them live.
    ///
    /// # Safety
    /// It was claimed here.
    #[inline]
    pub unsafe fn lasting<'a>(&'a self, counters: &Counters) -> &'a Counters {
        debug_assert!(ptr::eq(&*self.place(counters.number).counters, counters), "it is another's");
        // SAFETY: its place keeps it, and no place is removed while this lives.
        unsafe { &*ptr::from_ref(counters) }
    }

    fn claim_free(&self) -> Option<&Arc<Counters>> {
        let first = |word| Some(self.place(Head::of(word).first.checked_sub(1)?));
        let pop = |word| {
            // ORDER(COUNTERS): Relaxed - if the set is no longer free, this may be any value, and
            // the stamp makes the CAS fail.
            let next = first(word)?.next.load(Ordering::Relaxed);
            Some(Head::of(word).then(next).word())
        };
        // ORDER(COUNTERS): Acquire - pairs with the Release in `hand_back`. A CAS in between
        // continues its release sequence.
        let word = self.free.fetch_update(Ordering::Acquire, Ordering::Acquire, pop).ok()?;
        first(word).map(|place| &place.counters)
    }

    /// The place of a set of counters that was claimed.
    fn place(&self, number: u32) -> &CounterSet {
        let (segment, at) = segment_of(number);
        &self.segment(segment).expect("a number leads to a counters")[at]
    }

    fn segment(&self, index: usize) -> Option<&[CounterSet]> {
        // ORDER(COUNTERS): Acquire - pairs with the CAS in `make_segment`: its sets are
        // initialised.
        let first = self.segments[index].load(Ordering::Acquire);
        // SAFETY: a pointer that is not null is the first place of a boxed segment of that length,
        // which lives until the list is dropped.
        (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, FIRST << index) })
    }

    fn make_segment(&self, index: usize) -> &[CounterSet] {
        if let Some(segment) = self.segment(index) {
            return segment;
        }
        let place = |number: usize| CounterSet {
            counters: Arc::new(Counters::new(number as u32)),
            next: AtomicU32::new(0),
        };
        let numbers = first_of(index)..first_of(index + 1);
        publish_slice(&self.segments[index], numbers.map(place).collect());
        self.segment(index).expect("one was just published")
    }

    /// How many writers there were at a time, at most. O(1).
    pub(super) fn writers(&self) -> u64 {
        // ORDER: Relaxed - a number that only grows.
        self.given_out.load(Ordering::Relaxed).into()
    }

    /// How many sets of counters there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
    pub(super) fn untold_living(&self) -> u64 {
        self.iter().fold(0, |sum, counters| sum.wrapping_add(counters.untold().living))
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Counters>> {
        #[cfg(test)]
        visits::begin();
        // A segment may be missing below an existing one while another thread makes it.
        let segments = (0..SEGMENTS).filter_map(|index| self.segment(index));
        segments.flatten().map(|place| &place.counters)
    }
}

/// The segment of a set of counters, and its position there.
fn segment_of(number: u32) -> (usize, usize) {
    let segment = (number as usize / FIRST + 1).ilog2() as usize;
    (segment, number as usize - first_of(segment))
}

/// The number of a segment's first set.
fn first_of(segment: usize) -> usize {
    FIRST * ((1 << segment) - 1)
}

impl Drop for AllCounters {
    fn drop(&mut self) {
        for (index, segment) in self.segments.iter().enumerate() {
            // ORDER(COUNTERS): Acquire - as in `segment`; nobody else is left.
            let first = segment.load(Ordering::Acquire);
            if !first.is_null() {
                let places = ptr::slice_from_raw_parts_mut(first, FIRST << index);
                // SAFETY: as in `segment`; the list is going, so nobody borrows it.
                drop(unsafe { Box::from_raw(places) });
            }
        }
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
    fn there_are_as_many_as_there_were_writers_at_a_time_or_twice_that() {
        let all_counters = AllCounters::default();
        for writers in [1, FIRST, FIRST + 1, 1000, 3] {
            for _ in 0..3 {
                let claimed: Vec<Arc<Counters>> =
                    (0..writers).map(|_| all_counters.claim()).collect();
                let mut numbers: Vec<u32> =
                    claimed.iter().map(|counters| counters.number).collect();
                numbers.sort_unstable();
                numbers.dedup();
                assert_eq!(numbers.len(), writers, "each writer has one of its own");
                claimed.iter().for_each(|counters| all_counters.hand_back(counters));
            }
            let most = writers.max(if writers == 3 { 1000 } else { 0 });
            assert!(all_counters.len() <= 2 * most + FIRST, "{} for {most}", all_counters.len());
        }
    }

    #[test]
    fn numbers_lead_through_segments_that_double_without_a_gap() {
        let mut next = (0, 0);
        for number in 0..1000 {
            assert_eq!(segment_of(number), next);
            next.1 += 1;
            if next.1 == FIRST << next.0 {
                next = (next.0 + 1, 0);
            }
        }
        assert_eq!(segment_of((1 << 28) - FIRST as u32 - 1).0, SEGMENTS - 1);
    }
}
