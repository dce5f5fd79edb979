//! The armed heap: when each armed bucket opens. Only the shard's owner uses it.
//!
//! One min-heap per level, because eager cascading needs the next bucket *of a level*. A bucket may
//! be on it for several expirations at once (rounds of its ring).
//!
//! *Invariants*: an item is never judged by the expiration that its bucket publishes. Only a
//! duplicate of the same bucket and expiration is left out, and it always is: no pair is on the
//! heap twice, so its size is bounded by the rounds for which buckets are armed. A bucket remembers
//! one of its rounds, the armed heap the others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use crate::time::{Place, Tick};

/// Armed buckets by expiration.
#[derive(Debug, Default)]
pub struct ArmedHeap {
    /// As many levels as were ever needed.
    levels: Vec<BinaryHeap<Reverse<(Tick, u32)>>>,
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
        let mut first: Option<Place> = None;
        for (heap, level) in self.levels.iter().zip(1..) {
            let Some(&Reverse((expiration, slot))) = heap.peek() else { continue };
            if first.is_none_or(|first| expiration <= first.expiration) {
                first = Some(Place { level, slot, expiration });
            }
        }
        first
    }

    /// Removes the first bucket, which is `first`.
    #[inline]
    pub fn remove(&mut self, first: Place) {
        debug_assert_eq!(self.first_of(first.level), Some(first), "buckets leave in order");
        #[cfg(debug_assertions)]
        assert!(self.all.remove(&first), "{first:?} is not on the armed heap");
        self.levels[usize::from(first.level) - 1].pop();
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
