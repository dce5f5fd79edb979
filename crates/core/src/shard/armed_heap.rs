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
//! always is: so the size is bounded by the rounds for which buckets are armed.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;

use crate::entry::Filed;
use crate::sync::spread;
use crate::time::{Place, Tick};

/// Armed buckets by expiration, and what is kept for each.
#[derive(Debug)]
pub struct ArmedHeap<V = ()> {
    /// As many levels as were ever needed.
    levels: Vec<BinaryHeap<Reverse<(Tick, u32)>>>,
    /// See [`ArmedHeap::first`].
    first: Option<Place>,
    /// See [`ArmedHeap::take_change`].
    has_changed: bool,
    /// Everything on it, by level and expiration in one number. (The map keeps its capacity.)
    kept: HashMap<u64, V, BuildHasherDefault<NumberHasher>>,
}

/// Hashes one number, in a few instructions: a round comes and goes each time that a bucket opens.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = spread(number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn number_of(place: Place) -> u64 {
    Filed::of(place).pack()
}

// === impl ArmedHeap ===

impl ArmedHeap {
    /// Adds a bucket that opens at the place's expiration. Returns `false` if this pair is on the
    /// heap already. O(log n) in the level's rounds.
    pub fn add(&mut self, place: Place) -> bool {
        let mut is_new = false;
        self.at_or_add(place, || is_new = true);
        is_new
    }
}

impl<V> ArmedHeap<V> {
    /// What is kept for a place. One that is not on the heap yet is added, with what `make` makes.
    pub(super) fn at_or_add(&mut self, place: Place, make: impl FnOnce() -> V) -> &mut V {
        let free = match self.kept.entry(number_of(place)) {
            Entry::Occupied(kept) => return kept.into_mut(),
            Entry::Vacant(free) => free,
        };
        let level = usize::from(place.level);
        if self.levels.len() < level {
            self.levels.resize_with(level, BinaryHeap::new);
        }
        self.levels[level - 1].push(Reverse((place.expiration, place.slot)));
        self.has_changed |= level > 1;
        let order = |place: Place| (place.expiration, Reverse(place.level));
        if self.first.is_none_or(|first| order(place) < order(first)) {
            self.first = Some(place);
        }
        free.insert(make())
    }

    /// What is kept for a place, if it is on the heap.
    pub(super) fn at(&self, place: Place) -> Option<&V> {
        self.kept.get(&number_of(place))
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

    /// Removes the first bucket of a level. Returns what was kept for it.
    pub fn remove(&mut self, first: Place) -> V {
        debug_assert_eq!(self.first_of(first.level), Some(first), "buckets leave in order");
        self.levels[usize::from(first.level) - 1].pop();
        self.has_changed |= first.level > 1;
        self.first = self.find_first();
        self.kept.remove(&number_of(first)).expect("what is on a heap is kept")
    }

    fn find_first(&self) -> Option<Place> {
        let mut first = None::<Place>;
        for (heap, level) in self.levels.iter().zip(1..) {
            let Some(&Reverse((expiration, slot))) = heap.peek() else { continue };
            if first.is_none_or(|first| expiration <= first.expiration) {
                first = Some(Place { level, slot, expiration });
            }
        }
        first
    }

    /// Everything on the armed heap, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        self.levels.iter().zip(1..).flat_map(|(heap, level)| {
            heap.iter().map(move |&Reverse((expiration, slot))| Place { level, slot, expiration })
        })
    }

    /// For checks: whether the heaps have what is kept, once each, and `first` is the first of it.
    pub(super) fn is_whole(&self) -> bool {
        let first = self.iter().min_by_key(|place| (place.expiration, Reverse(place.level)));
        let is_kept = self.iter().all(|place| self.at(place).is_some());
        is_kept && self.iter().count() == self.kept.len() && self.first == first
    }
}

impl<V> Default for ArmedHeap<V> {
    fn default() -> ArmedHeap<V> {
        let kept = HashMap::default();
        ArmedHeap { levels: Vec::new(), first: None, has_changed: false, kept }
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
                (true, Some(new), _) => assert!(heap.add(new)),
                (_, _, Some(first)) => heap.remove(first),
                _ => {}
            }
            assert!(heap.is_whole());
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
    fn each_round_of_a_bucket_is_on_the_armed_heap_once() {
        let mut heap = ArmedHeap::default();
        let added = [5, 69, 133, 69].map(|at| heap.add(place(1, 5, at)));
        assert_eq!(added, [true, true, true, false]);
        assert!(heap.at(place(1, 5, 69)).is_some() && heap.at(place(2, 5, 69)).is_none());
        let order: Vec<Place> = std::iter::from_fn(|| pop_until(&mut heap, 99)).collect();
        assert_eq!(order, [place(1, 5, 5), place(1, 5, 69)]);
        assert!(heap.add(place(1, 5, 69)), "it was removed");
    }
}
