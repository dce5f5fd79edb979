//! Where a wheel's timers live: slots that are reused, under keys that are not.
//!
//! A slot's generation moves on when its timer leaves, so that an old key matches nothing. A slot
//! whose generations are used up is retired instead of starting over.
//!
//! *Invariants*: the generation of an occupied slot is the one in its timer's key, that of a
//! vacant one was never handed out (or the slot is retired); `free` lists every vacant slot that
//! is not retired, once.
//!
//! *Tested by*: the tests below, `tests/local_wheel.rs`, `tests/local_oracle.rs`.

use std::fmt;
use std::num::NonZeroU32;

use crate::time::Tick;

use super::prefetch::{AHEAD, prefetch};
use super::rings::Seat;

/// Names one timer of one [`Wheel`](super::Wheel).
///
/// A key is 8 bytes (so is an `Option<Key>`), is free to copy, and dies with its timer: once the
/// timer fired or was cancelled every use of the key says so (`None`, `false`) and never reaches
/// another timer, although the timer's memory is reused at once. This holds for ever: memory
/// that was used 2^32 - 2 times is retired rather than given keys that it had before, which costs
/// one timer's memory per four thousand million timers.
///
/// A key means nothing to another wheel: there it may name no timer or any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    index: u32,
    generation: NonZeroU32,
}

/// A timer and where it is filed.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) deadline: Tick,
    /// The bucket that lists this entry.
    pub(super) seat: Seat,
    /// Where in the bucket's list.
    pub(super) position: u32,
    pub(super) payload: T,
}

/// A vacant slot that is about to be used.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) index: u32,
    is_new: bool,
}

/// Slots for timers.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Vacant slots. A stack of its own, not a chain through the slots: the slots to be used next
    /// can then be fetched ahead, and the one used last is the first to be reused.
    free: Vec<u32>,
    occupied: usize,
    /// The generation that new slots start with.
    fresh: NonZeroU32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: NonZeroU32,
    /// The seat is never zero and so tells a vacant slot from an occupied one in no extra space.
    entry: Option<Entry<T>>,
}

/// The generation of slots that are never used again; no key has it.
const RETIRED: NonZeroU32 = NonZeroU32::MAX;

// With an 8-byte payload two slots share a cache line; this is what the figures rest on.
const _: () = assert!(size_of::<Slot<u64>>() == 32);
const _: () = assert!(size_of::<Option<Key>>() == 8);

// === impl Key ===

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}v{}", self.index, self.generation)
    }
}

// === impl Slab ===

impl<T> Slab<T> {
    pub(super) const fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new(), occupied: 0, fresh: NonZeroU32::MIN }
    }

    /// Makes room for `additional` timers more.
    pub(super) fn reserve(&mut self, additional: usize) {
        self.slots.reserve(additional.saturating_sub(self.free.len()));
    }

    /// Timers in the slab.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.occupied
    }

    /// One more than the largest index in use.
    pub(super) fn end(&self) -> usize {
        self.slots.len()
    }

    /// Claims a slot for the next [`fill`](Slab::fill).
    ///
    /// # Panics
    /// With 2^32 - 1 slots in use.
    #[inline]
    pub(super) fn claim(&mut self) -> Claim {
        match self.free.pop() {
            Some(index) => {
                if let Some(soon) = self.free.get(self.free.len().wrapping_sub(AHEAD / 4)) {
                    prefetch(&self.slots, *soon as usize);
                }
                Claim { index, is_new: false }
            }
            None => {
                assert!(self.slots.len() < u32::MAX as usize, "2^32 - 1 timers are the limit");
                Claim { index: self.slots.len() as u32, is_new: true }
            }
        }
    }

    /// Puts `entry` into the slot that was claimed.
    #[inline]
    pub(super) fn fill(&mut self, claim: Claim, entry: Entry<T>) -> Key {
        self.occupied += 1;
        if claim.is_new {
            self.slots.push(Slot { generation: self.fresh, entry: Some(entry) });
            return Key { index: claim.index, generation: self.fresh };
        }
        let slot = &mut self.slots[claim.index as usize];
        debug_assert!(slot.entry.is_none(), "a free slot is vacant");
        slot.entry = Some(entry);
        Key { index: claim.index, generation: slot.generation }
    }

    /// The index of `key`'s timer, if that is still here.
    #[inline]
    pub(super) fn index(&self, key: Key) -> Option<u32> {
        let slot = self.slots.get(key.index as usize)?;
        (slot.generation == key.generation && slot.entry.is_some()).then_some(key.index)
    }

    /// The key of the timer at `index`, if there is one.
    pub(super) fn key(&self, index: u32) -> Option<Key> {
        let slot = self.slots.get(index as usize)?;
        slot.entry.as_ref().map(|_| Key { index, generation: slot.generation })
    }

    /// The timer of `key`.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Entry<T>> {
        let slot = self.slots.get(key.index as usize)?;
        slot.entry.as_ref().filter(|_| slot.generation == key.generation)
    }

    /// The timer of `key`.
    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Entry<T>> {
        let slot = self.slots.get_mut(key.index as usize)?;
        slot.entry.as_mut().filter(|_| slot.generation == key.generation)
    }

    /// The timer at `index`, which a bucket lists.
    #[inline]
    pub(super) fn listed(&mut self, index: u32) -> &mut Entry<T> {
        self.slots[index as usize].entry.as_mut().expect("a listed slot is occupied")
    }

    /// Takes out the timer at `index`, which a bucket listed.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> (Key, Entry<T>) {
        let slot = &mut self.slots[index as usize];
        let entry = slot.entry.take().expect("a listed slot is occupied");
        let key = Key { index, generation: slot.generation };
        self.occupied -= 1;
        slot.generation = slot.generation.saturating_add(1);
        if slot.generation < RETIRED {
            self.free.push(index);
        }
        (key, entry)
    }

    /// Every timer.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> + Clone {
        self.slots.iter().filter_map(|slot| slot.entry.as_ref())
    }

    /// Starts loading the timer at `index`.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        prefetch(&self.slots, index as usize);
    }

    /// Gives memory back: vacant slots after the last timer, and what was reserved.
    pub(super) fn shrink(&mut self) {
        while let Some(slot) = self.slots.last().filter(|slot| slot.is_reusable()) {
            // Keys of the slots that go must not fit those that may come in their place.
            self.fresh = self.fresh.max(slot.generation);
            self.slots.pop();
        }
        self.free.retain(|index| (*index as usize) < self.slots.len());
        self.free.shrink_to_fit();
        self.slots.shrink_to_fit();
    }

    /// Asserts that slots, free list and counts agree.
    pub(super) fn check(&self) {
        let mut free = vec![false; self.slots.len()];
        for index in &self.free {
            let is_free = &mut free[*index as usize];
            assert!(!*is_free, "slot {index} is free twice");
            *is_free = true;
        }
        for (slot, is_free) in self.slots.iter().zip(&free) {
            assert_eq!(slot.is_reusable(), *is_free, "vacant and free, or neither");
        }
        let occupied = self.slots.iter().filter(|slot| slot.entry.is_some()).count();
        assert_eq!(occupied, self.occupied, "the count of timers");
    }
}

impl<T> Slot<T> {
    /// Vacant, with generations left.
    fn is_reusable(&self) -> bool {
        self.entry.is_none() && self.generation < RETIRED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Slab<u64> {
        fn insert(&mut self, entry: Entry<u64>) -> Key {
            let claim = self.claim();
            self.fill(claim, entry)
        }
    }

    fn entry(payload: u64) -> Entry<u64> {
        Entry { deadline: Tick::NEVER, seat: Seat::NOWHERE, position: 0, payload }
    }

    #[test]
    fn the_slot_left_last_is_used_next_under_another_key() {
        let mut slab = Slab::new();
        let first = slab.insert(entry(1));
        let second = slab.insert(entry(2));
        slab.remove(second.index);
        let third = slab.insert(entry(3));
        assert_eq!(third.index, second.index);
        assert_ne!(third, second);
        assert!(slab.get(second).is_none());
        assert_eq!(slab.get(first).unwrap().payload, 1);
        assert_eq!(slab.end(), 2);
        slab.check();
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_retired() {
        let mut slab = Slab::new();
        let first = slab.insert(entry(1));
        slab.remove(first.index);
        slab.slots[0].generation = NonZeroU32::new(u32::MAX - 1).unwrap();
        let last = slab.insert(entry(2));
        assert_eq!((last.index, last.generation.get()), (0, u32::MAX - 1));
        slab.remove(last.index);
        let elsewhere = slab.insert(entry(3));
        assert_eq!(elsewhere.index, 1);
        assert!(slab.get(last).is_none());
        assert!(slab.get(first).is_none());
        slab.check();
        slab.remove(elsewhere.index);
        slab.shrink();
        assert_eq!(slab.end(), 1, "a retired slot stays, to be known as such");
        slab.check();
    }

    #[test]
    fn keys_from_before_shrinking_fit_nothing_that_grows_later() {
        let mut slab = Slab::new();
        let kept = slab.insert(entry(0));
        let mut old = Vec::new();
        for round in 0..3 {
            for payload in 0..5 {
                old.push(slab.insert(entry(payload)));
            }
            for key in &old[round * 5..] {
                slab.remove(key.index);
            }
        }
        slab.shrink();
        assert_eq!((slab.end(), slab.len()), (1, 1));
        slab.check();
        for payload in 0..5 {
            slab.insert(entry(payload));
        }
        assert!(old.iter().all(|key| slab.get(*key).is_none()));
        assert_eq!(slab.get(kept).unwrap().payload, 0);
        slab.check();
    }
}
