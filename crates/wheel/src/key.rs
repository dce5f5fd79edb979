//! Keys: names of timers that are never given out twice, and the table that finds what they name.
//!
//! A key is an index into the table and a generation. The table says at which cell the timer of
//! that index lies. The cell holds the whole key, which says whether it is still the same timer.
//! So nothing is erased when a timer leaves: its index goes on the stack of free keys under the
//! next generation, and the table is written when that key is given out.
//!
//! *Invariants*: of every index at most one key is on the stack or names a pending timer; that
//! key's generation is larger than those given out before. An index whose generations are used
//! up is retired: on the stack no more. There is room on the stack for all keys.
//!
//! *Tested by*: the tests below, `tests/hierarchy.rs`, `tests/oracle.rs`.

use alloc::{vec, vec::Vec};
use core::fmt;
use core::num::NonZeroU64;

use super::prefetch::prefetch;

/// Names one timer of one [`Wheel`](super::Wheel) or [`HashedWheel`](super::HashedWheel).
///
/// A key has 8 bytes, as has an `Option<Key>`, and can be copied freely. Once its timer has fired
/// or was cancelled, the key is stale: every use of it returns `None` or `false` and never reaches
/// another timer, although the timer's memory is reused at once. This holds for ever: an index
/// that was used 2^32 - 2 times is retired and given no key that it had before. That costs four
/// bytes per four thousand million timers.
///
/// A key of one wheel has no meaning in another, where it may name any timer or none.
///
/// ```
/// use tickless_wheel::{Key, Tick, Wheel};
///
/// /// A connection of an event loop keeps the key of its timer while there is one.
/// struct Connection {
///     idle: Option<Key>,
/// }
///
/// let mut wheel = Wheel::default();
/// let mut connection = Connection { idle: Some(wheel.insert(Tick::new(30), "idle")) };
/// wheel.advance(Tick::new(30), |key, _, _| {
///     if connection.idle == Some(key) {
///         connection.idle = None;
///     }
/// });
/// assert!(connection.idle.is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(
    /// Index above, generation below: equality is one comparison. Generations start at 1.
    NonZeroU64,
);

/// The keys of a wheel.
#[derive(Debug)]
pub(super) struct Keys {
    /// The cell of every index's timer; for an index without one, anything.
    homes: Vec<u32>,
    /// Keys to be given out, the latest to have become free first.
    free: Vec<Key>,
    /// Keys that are given out.
    given: usize,
    /// The generation that new indices start with.
    fresh: u32,
}

const GENERATION_BITS: u32 = u32::BITS;

/// The generation that no key has.
const RETIRED: u32 = u32::MAX;

/// How many keys are made at first, and at most at a time.
const FIRST_BATCH: u32 = 4;
const BATCH: u32 = 32;

/// How many free keys ahead of the one given out the table is fetched.
const AHEAD: usize = 8;

const _: () = assert!(size_of::<Option<Key>>() == 8);

// === impl Key ===

impl Key {
    #[inline]
    fn new(index: u32, generation: u32) -> Key {
        let word = u64::from(index) << GENERATION_BITS | u64::from(generation);
        Key(NonZeroU64::new(word).expect("generations start at 1"))
    }

    #[inline]
    const fn index(self) -> usize {
        (self.0.get() >> GENERATION_BITS) as usize
    }

    /// The same index under the next generation, if there is one.
    #[inline]
    fn next(self) -> Option<Key> {
        let next = self.0.get() + 1;
        if next as u32 == RETIRED {
            return None;
        }
        // SAFETY: the generation of a key is below `RETIRED`, the largest that there is, so
        // adding one to it carries nothing and leaves it above zero.
        Some(Key(unsafe { NonZeroU64::new_unchecked(next) }))
    }

    #[inline]
    const fn generation(self) -> u32 {
        self.0.get() as u32
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}v{}", self.index(), self.generation())
    }
}

// === impl Keys ===

impl Keys {
    pub(super) const fn new() -> Keys {
        Keys { homes: Vec::new(), free: Vec::new(), given: 0, fresh: 1 }
    }

    /// Makes room for `additional` timers more.
    pub(super) fn reserve(&mut self, additional: usize) {
        self.homes.reserve(additional.saturating_sub(self.free.len()));
        self.reserve_free();
    }

    /// Makes room on the stack for all keys at once, so that taking one back never has to.
    fn reserve_free(&mut self) {
        let most = self.homes.capacity();
        if self.free.capacity() < most {
            // Growing in place would copy what is reserved; little of that is in use.
            let mut free = Vec::with_capacity(most);
            free.append(&mut self.free);
            self.free = free;
        }
    }

    /// How many keys there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.homes.capacity()
    }

    /// Keys that are given out.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.given
    }

    /// The key that the next [`give`](Keys::give) gives out, or `None` if there has to be
    /// [room](Keys::make_room) for it first.
    #[inline]
    pub(super) fn next(&self) -> Option<Key> {
        self.free.last().copied()
    }

    /// The same, once there is room for it.
    ///
    /// # Panics
    /// With 2^32 - 1 indices in use.
    #[inline]
    pub(super) fn next_or_make(&mut self) -> Key {
        if self.free.is_empty() {
            self.make_room();
        }
        self.free[self.free.len() - 1]
    }

    /// Puts some new keys on the stack.
    ///
    /// # Panics
    /// With 2^32 - 1 indices in use.
    #[inline(never)]
    pub(super) fn make_room(&mut self) {
        let first = self.homes.len() as u32;
        // No more than there is room for, if there is any: room grows by doubling.
        let room = match self.homes.capacity() - self.homes.len() {
            0 => u32::MAX,
            room => u32::try_from(room).unwrap_or(u32::MAX),
        };
        let count = (u32::MAX - first).min(first.clamp(FIRST_BATCH, BATCH)).min(room);
        assert!(count > 0, "2^32 - 1 timers are the limit");
        self.homes.reserve(count as usize);
        self.reserve_free();
        self.homes.resize(self.homes.len() + count as usize, 0);
        let fresh = self.fresh;
        self.free.extend((first..first + count).rev().map(|index| Key::new(index, fresh)));
    }

    /// Gives out the [`next`](Keys::next) key, to the timer at `cell`.
    #[inline]
    pub(super) fn give(&mut self, cell: u32) {
        let Some(key) = self.free.pop() else { return };
        self.given += 1;
        debug_assert!(key.index() < self.homes.len());
        // SAFETY: an index is made together with its place in the table, and `shrink` takes keys
        // off the stack whose places it releases.
        unsafe { *self.homes.get_unchecked_mut(key.index()) = cell };
        if let Some(soon) = self.free.get(self.free.len().wrapping_sub(AHEAD)) {
            prefetch(&self.homes, soon.index(), 0);
        }
    }

    /// Takes `key` back from a timer that has left.
    #[inline]
    pub(super) fn take(&mut self, key: Key) {
        self.given -= 1;
        // If there is none, the index is retired.
        let Some(next) = key.next() else { return };
        assert!(self.free.len() < self.free.capacity(), "there is room for all keys");
        self.free.push(next);
    }

    /// Where the timer of `key` lies, if it is still pending: the cell there holds the key then.
    #[inline]
    pub(super) fn home(&self, key: Key) -> Option<u32> {
        self.homes.get(key.index()).copied()
    }

    /// Starts loading what [`moved`](Keys::moved) will change.
    #[inline]
    pub(super) fn prefetch(&self, key: Key) {
        prefetch(&self.homes, key.index(), 0);
    }

    /// The timer of `key` has moved to `cell`.
    #[inline]
    pub(super) fn moved(&mut self, key: Key, cell: u32) {
        self.homes[key.index()] = cell;
    }

    /// Gives memory back: free indices after the last one in use, and what was reserved.
    pub(super) fn shrink(&mut self) {
        let mut free = vec![None; self.homes.len()];
        self.free.iter().for_each(|key| free[key.index()] = Some(*key));
        while let Some(Some(key)) = free.last() {
            // Keys of the indices that go must not be like those that may come in their place.
            self.fresh = self.fresh.max(key.generation());
            free.pop();
            self.homes.pop();
        }
        self.free.retain(|key| key.index() < self.homes.len());
        self.homes.shrink_to_fit();
        self.free.shrink_to(self.homes.capacity());
    }

    /// Asserts that `pending`, the keys of all timers, and the free ones share no index, and that
    /// the counts agree.
    pub(super) fn check(&self, pending: impl Iterator<Item = (Key, u32)>) {
        assert!(self.free.capacity() >= self.homes.len(), "there is room for all keys");
        let mut seen = vec![false; self.homes.len()];
        let mut see = |key: Key| {
            assert!(key.generation() < RETIRED, "{key:?} is retired");
            assert!(!core::mem::replace(&mut seen[key.index()], true), "{key:?} is there twice");
        };
        let mut count = 0;
        for (key, cell) in pending {
            see(key);
            assert_eq!(self.home(key), Some(cell), "{key:?} is found");
            count += 1;
        }
        self.free.iter().copied().for_each(see);
        assert_eq!(count, self.len(), "every timer is listed once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(keys: &mut Keys) -> Key {
        let key = keys.next_or_make();
        keys.give(7);
        assert_eq!(keys.home(key), Some(7));
        key
    }

    #[test]
    fn the_index_left_last_is_used_next_under_another_generation() {
        let mut keys = Keys::new();
        let first = give(&mut keys);
        let second = give(&mut keys);
        keys.take(second);
        let third = give(&mut keys);
        assert_eq!(third.index(), second.index());
        assert_ne!(third, second);
        assert_eq!((keys.homes.len(), keys.len()), (FIRST_BATCH as usize, 2));
        keys.check([(first, 7), (third, 7)].into_iter());
    }

    #[test]
    fn an_index_whose_generations_are_used_up_is_retired() {
        let mut keys = Keys::new();
        let first = give(&mut keys);
        keys.take(first);
        *keys.free.last_mut().unwrap() = Key::new(0, RETIRED - 1);
        let last = give(&mut keys);
        assert_eq!((last.index(), last.generation()), (0, RETIRED - 1));
        keys.take(last);
        assert_eq!(keys.len(), 0);
        let elsewhere = give(&mut keys);
        assert_eq!(elsewhere.index(), 1);
        keys.take(elsewhere);
        keys.shrink();
        assert_eq!((keys.homes.len(), keys.len()), (1, 0), "a retired index stays, to be known");
        keys.check(core::iter::empty());
    }

    #[test]
    fn keys_from_before_shrinking_are_like_none_that_come_later() {
        let mut keys = Keys::new();
        let kept = give(&mut keys);
        let mut old = Vec::new();
        for round in 0..3 {
            for _ in 0..5 {
                old.push(give(&mut keys));
            }
            old[round * 5..].iter().for_each(|key| keys.take(*key));
        }
        keys.shrink();
        assert_eq!((keys.homes.len(), keys.len()), (1, 1));
        let new: Vec<Key> = (0..5).map(|_| give(&mut keys)).collect();
        assert!(old.iter().all(|key| !new.contains(key)));
        keys.check(new.into_iter().chain([kept]).map(|key| (key, 7)));
    }
}
