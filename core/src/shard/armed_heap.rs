//! The armed heap: what opens when. Only the shard's owner uses it, once for the armed buckets and
//! once for the rounds at hand (`rounds`), whose hands it keeps.
//!
//! One ordered map per level, because eager cascading needs the next bucket *of a level*. A bucket
//! may be on it for several expirations at once (rounds of its ring).
//!
//! A turn asks several times when the first bucket opens, and mostly nothing has changed since the
//! last turn. So the first one is remembered, and so is whether coarse buckets came or went.
//!
//! *Invariants*: `first` is the first of all levels. An item is never judged by the expiration that
//! its bucket publishes. No pair of bucket and expiration is on it twice, so its size is bounded by
//! the rounds for which buckets are armed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem;

use crate::time::{Place, Tick};

/// Buckets or rounds by expiration, each with a value.
#[derive(Debug)]
pub struct ArmedHeap<V = ()> {
    /// By expiration and slot, for as many levels as were ever needed.
    levels: Vec<BTreeMap<(Tick, u32), V>>,
    /// See [`ArmedHeap::first`].
    first: Option<Place>,
    /// See [`ArmedHeap::take_change`].
    has_changed: bool,
}

/// What comes first: of several at the same time, one of the highest level, so that its entries
/// join those of the others.
fn order(place: Place) -> (Tick, Reverse<u8>) {
    (place.expiration, Reverse(place.level))
}

// === impl ArmedHeap ===

impl ArmedHeap {
    /// Adds a bucket that opens at the place's expiration. Returns `false` if the pair is on the
    /// heap already. O(log n) in the level's rounds.
    pub fn add(&mut self, place: Place) -> bool {
        let mut is_new = false;
        self.value_of(place, || is_new = true);
        is_new
    }
}

impl<V> ArmedHeap<V> {
    /// The value of a place. If it is not on the heap, adds it with a value from `make`.
    pub(super) fn value_of(&mut self, place: Place, make: impl FnOnce() -> V) -> &mut V {
        let level = usize::from(place.level);
        if self.levels.len() < level {
            self.levels.resize_with(level, BTreeMap::new);
        }
        match self.levels[level - 1].entry((place.expiration, place.slot)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place_of_value) => {
                self.has_changed |= level > 1;
                if self.first.is_none_or(|first| order(place) < order(first)) {
                    self.first = Some(place);
                }
                place_of_value.insert(make())
            }
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
        let (&(expiration, slot), _) =
            self.levels.get(usize::from(level) - 1)?.first_key_value()?;
        Some(Place { level, slot, expiration })
    }

    /// The bucket that opens next.
    #[inline]
    pub fn first(&self) -> Option<Place> {
        self.first
    }

    /// Removes a place, if it is on the heap. Returns its value.
    pub fn remove(&mut self, place: Place) -> Option<V> {
        let level = self.levels.get_mut(usize::from(place.level) - 1)?;
        let value = level.remove(&(place.expiration, place.slot))?;
        self.has_changed |= place.level > 1;
        if self.first == Some(place) {
            let firsts = (1..=self.levels()).filter_map(|level| self.first_of(level));
            self.first = firsts.min_by_key(|&place| order(place));
        }
        Some(value)
    }

    /// Everything on the armed heap, in no order.
    pub(super) fn items(&self) -> impl Iterator<Item = (Place, &V)> {
        self.levels.iter().zip(1..).flat_map(|(items, level)| {
            let place = move |(expiration, slot)| Place { level, slot, expiration };
            items.iter().map(move |(&key, value)| (place(key), value))
        })
    }

    /// The places on it, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Place> {
        self.items().map(|(place, _)| place)
    }
}

impl<V> Default for ArmedHeap<V> {
    fn default() -> ArmedHeap<V> {
        ArmedHeap { levels: Vec::new(), first: None, has_changed: false }
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
                (_, _, Some(first)) => assert!(heap.remove(first).is_some()),
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
    fn a_pair_is_on_the_armed_heap_once_and_a_bucket_for_each_of_its_rounds() {
        let mut heap = ArmedHeap::default();
        for (expiration, is_new) in [(5, true), (69, true), (133, true), (69, false), (5, false)] {
            assert_eq!(heap.add(place(1, 5, expiration)), is_new);
        }
        let order: Vec<Place> = std::iter::from_fn(|| pop_until(&mut heap, 99)).collect();
        assert_eq!(order, [place(1, 5, 5), place(1, 5, 69)]);
        assert_eq!((heap.remove(place(1, 5, 69)), heap.remove(place(1, 5, 133))), (None, Some(())));
        assert_eq!(heap.first(), None);
    }
}
