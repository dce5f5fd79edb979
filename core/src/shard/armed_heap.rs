//! The armed heap: when each armed bucket opens. Only the shard's owner uses it.
//!
//! One min-heap per level, because eager cascading needs the next bucket *of a level*. A bucket may
//! be on it for several expirations at once (rounds of its ring).
//!
//! A turn asks several times when the first bucket opens, and mostly nothing has changed since the
//! last turn. So the first one is remembered, and so is whether coarse buckets came or went.
//!
//! *Invariants*: `first` is the first of the heaps. An item is never judged by the expiration that
//! its bucket publishes. Only a duplicate of the same bucket and expiration is left out, and it
//! always is: no pair is on the heap twice, so its size is bounded by the rounds for which buckets
//! are armed. A bucket remembers one of its rounds, the armed heap the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::mem;

use crate::time::{Place, Tick};

/// Armed buckets by expiration.
#[derive(Debug, Default)]
pub struct ArmedHeap {
    /// As many levels as were ever needed.
    levels: Vec<BinaryHeap<Reverse<(Tick, u32)>>>,
    /// A bit for each level that has a bucket on it; that of the first level is the lowest.
    used: u64,
    /// See [`ArmedHeap::first`].
    first: Option<Place>,
    /// See [`ArmedHeap::take_change`].
    has_changed: bool,
    /// The rounds on it that their bucket does not remember. (The set keeps its capacity.)
    others: HashSet<Place>,
    /// Everything on it, to find duplicates. It grows at the same time in each run, which tests
    /// that count allocations rely on: so its hashes are not random.
    #[cfg(debug_assertions)]
    all: HashSet<Place, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>,
}

// === impl ArmedHeap ===

impl ArmedHeap {
    /// Whether no bucket is on it for a round that the bucket does not remember.
    #[inline]
    pub(super) fn has_no_others(&self) -> bool {
        self.others.is_empty()
    }

    /// Whether this pair is on it, though the bucket does not remember it.
    pub(super) fn has_other(&self, place: Place) -> bool {
        self.others.contains(&place)
    }

    /// As [`ArmedHeap::add`], for a bucket that remembers another round. Leaves out a duplicate.
    pub(super) fn add_other(&mut self, place: Place) {
        if self.others.insert(place) {
            self.add(place);
        }
    }

    /// Adds a bucket that opens at the place's expiration; the pair is not on the heap yet. O(log
    /// n) in the level's rounds.
    pub fn add(&mut self, place: Place) {
        #[cfg(debug_assertions)]
        assert!(self.all.insert(place), "{place:?} is on the armed heap already");
        let level = usize::from(place.level);
        if self.levels.len() < level {
            self.levels.resize_with(level, BinaryHeap::new);
        }
        self.levels[level - 1].push(Reverse((place.expiration, place.slot)));
        self.used |= 1 << (level - 1);
        self.has_changed |= level > 1;
        let is_first = |first: Place| {
            let order = |place: Place| (place.expiration, Reverse(place.level));
            order(place) < order(first)
        };
        if self.first.is_none_or(is_first) {
            self.first = Some(place);
        }
    }

    /// Whether a bucket of a level above the first was added or removed since the last
    /// `take_change`.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The same, and the next call looks from here on.
    #[inline]
    pub(super) fn take_change(&mut self) -> bool {
        mem::take(&mut self.has_changed)
    }

    /// The highest level that may have a bucket on it.
    #[inline]
    pub fn levels(&self) -> u8 {
        self.levels.len() as u8
    }

    /// The bucket of `level` that opens next.
    #[inline]
    pub fn first_of(&self, level: u8) -> Option<Place> {
        let Reverse((expiration, slot)) = *self.levels.get(usize::from(level) - 1)?.peek()?;
        Some(Place { level, slot, expiration })
    }

    /// The bucket that opens next; of several at the same time, one of the highest level, so
    /// that its entries join those of the others.
    #[inline]
    pub fn first(&self) -> Option<Place> {
        self.first
    }

    /// Removes the first bucket, which is `first`.
    pub fn remove(&mut self, first: Place) {
        debug_assert_eq!(self.first_of(first.level), Some(first), "buckets leave in order");
        #[cfg(debug_assertions)]
        assert!(self.all.remove(&first), "{first:?} is not on the armed heap");
        let heap = &mut self.levels[usize::from(first.level) - 1];
        heap.pop();
        if heap.is_empty() {
            self.used &= !(1 << (first.level - 1));
        }
        self.has_changed |= first.level > 1;
        self.first = self.find_first();
    }

    fn find_first(&self) -> Option<Place> {
        let (mut first, mut used) = (None::<Place>, self.used);
        while used != 0 {
            let at = used.trailing_zeros();
            used &= used - 1;
            let next = self.levels[at as usize].peek();
            let Reverse((expiration, slot)) = *next.expect("a used level has a bucket");
            if first.is_none_or(|first| expiration <= first.expiration) {
                first = Some(Place { level: at as u8 + 1, slot, expiration });
            }
        }
        first
    }

    /// Forgets a removed round that the bucket itself did not remember.
    pub(super) fn forget_other(&mut self, place: Place) {
        let was_there = self.others.remove(&place);
        debug_assert!(was_there, "{place:?} is remembered by its bucket or here");
    }

    /// Everything on the armed heap, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        self.levels.iter().zip(1..).flat_map(|(heap, level)| {
            heap.iter().map(move |&Reverse((expiration, slot))| Place { level, slot, expiration })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pop_until(heap: &mut ArmedHeap, now: u64) -> Option<Place> {
        let first = heap.first().filter(|place| place.expiration <= Tick::new(now))?;
        heap.remove(first);
        Some(first)
    }

    fn place(level: u8, slot: u32, at: u64) -> Place {
        Place { level, slot, expiration: Tick::new(at) }
    }

    #[test]
    fn buckets_come_in_order_of_expiration_and_from_above_when_equal() {
        let mut heap = ArmedHeap::default();
        for place in [place(1, 5, 5), place(3, 0, 8), place(1, 0, 8), place(2, 1, 4)] {
            heap.add(place);
        }
        assert_eq!(heap.first_of(2), Some(place(2, 1, 4)));
        assert_eq!(pop_until(&mut heap, 3), None);
        let order: Vec<Place> = std::iter::from_fn(|| pop_until(&mut heap, 8)).collect();
        assert_eq!(order, [place(2, 1, 4), place(1, 5, 5), place(3, 0, 8), place(1, 0, 8)]);
        assert_eq!(heap.first(), None);
    }

    #[test]
    fn the_first_is_known_whatever_comes_and_goes() {
        let mut heap = ArmedHeap::default();
        let mut random = 1_u64;
        for round in 0..4_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let level = (random >> 60) as u8 % 5 + 1;
            // More come than go at first, then the other way round.
            let comes = (random >> 40) % 100 < if round < 2_000 { 60 } else { 35 };
            let is_new = |new: Place| heap.iter().all(|place| place != new);
            let new = Some(place(level, 0, random >> 33 & 0xff)).filter(|&new| is_new(new));
            match (comes, new, heap.first_of(level)) {
                (true, Some(new), _) => heap.add(new),
                (_, _, Some(first)) => heap.remove(first),
                _ => {}
            }
            let first = heap.iter().min_by_key(|place| (place.expiration, Reverse(place.level)));
            assert_eq!(heap.first(), first);
        }
    }

    #[test]
    fn a_change_of_a_coarse_level_is_told_once() {
        let mut heap = ArmedHeap::default();
        heap.add(place(1, 5, 5));
        assert!(!heap.take_change());
        heap.add(place(2, 1, 64));
        assert!(heap.has_changed() && heap.take_change() && !heap.take_change());
        heap.remove(place(2, 1, 64));
        assert!(heap.take_change());
        heap.remove(place(1, 5, 5));
        assert!(!heap.take_change());
    }

    #[test]
    fn a_round_that_the_bucket_does_not_remember_is_on_the_armed_heap_once() {
        let mut heap = ArmedHeap::default();
        heap.add(place(1, 5, 5));
        for other in [place(1, 5, 69), place(1, 5, 133), place(1, 5, 69)] {
            heap.add_other(other);
        }
        assert!(heap.has_other(place(1, 5, 69)) && !heap.has_other(place(1, 5, 5)));
        let order: Vec<Place> = std::iter::from_fn(|| pop_until(&mut heap, 99)).collect();
        assert_eq!(order, [place(1, 5, 5), place(1, 5, 69)]);
        heap.forget_other(place(1, 5, 69));
        assert!(!heap.has_other(place(1, 5, 69)) && !heap.has_no_others());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "is on the armed heap already")]
    fn an_opening_that_is_noted_twice_is_found() {
        let mut heap = ArmedHeap::default();
        heap.add(place(1, 5, 5));
        heap.add(place(1, 5, 5));
    }
}
