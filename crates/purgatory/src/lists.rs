//! The operations that wait under each key, for all threads.
//!
//! Keys are spread over parts by their hashes, and each part has a lock of its own. A lock is held
//! for one watch, one leave, or the collection of one batch, whatever the length of the list. It is
//! never held while an operation is tried or one of its callbacks runs, nor while a key or an
//! operation is dropped. (Only [`WatchLists::close`] copies a whole part.)
//!
//! *Invariant*: a thread that holds a lock here takes no other, and the only code of the user that
//! it runs is `Eq` of keys.
//!
//! *Tested by*: `tests/suite/purgatory/answers.rs`, `tests/oracles/purgatory.rs`,
//! `tests/races/purgatory.rs`.

use std::borrow::Borrow;
use std::ops::{Deref, DerefMut};
use std::vec;

use tickless::internal::contained;
use tickless::internal::sync::{CachePadded, Counter, Mutex, MutexGuard, Ordering, Record};

use super::Decision;
use super::blocks::{BATCH, Bookmark};
use super::watchers::{Stats, Watchers};

/// The number of parts that keys are spread over.
const PARTS: usize = 256;

/// The lists of some of the keys.
struct Part<K, N> {
    // LOCK(PURGATORY): stopper: leave; caller: watch, leave, walk, go_on, drop, close; test:
    // check; through: lock.
    watchers: Mutex<Watchers<K, N>>,
    /// What was counted there, for those who look: the first fields of a [`Stats`].
    record: Record<6>,
}

/// The lock of a part. What was counted is recorded when it is released.
struct Locked<'a, K, N: Clone> {
    watchers: MutexGuard<'a, Watchers<K, N>>,
    record: &'a Record<6>,
}

/// The lists of all keys.
pub(super) struct WatchLists<K, N> {
    parts: Box<[CachePadded<Part<K, N>>]>,
    panicked: Counter,
}

/// Where an operation waits under one of its keys: a part, and a slot there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchPlace {
    pub(super) part: u32,
    pub(super) slot: u32,
}

/// The number of places that need no allocation.
const FEW: usize = 3;

/// All places of an operation, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Places {
    count: u32,
    few: [WatchPlace; FEW],
    more: Vec<WatchPlace>,
}

/// Iterates over the operations that waited under one key when the walk began, in the order in
/// which they were registered, one batch at a time.
pub(super) struct Walk<'a, K, N: Clone> {
    lists: &'a WatchLists<K, N>,
    part: usize,
    bookmark: Option<Bookmark>,
    batch: vec::IntoIter<N>,
}

// === impl WatchLists ===

impl<K, N: Clone> WatchLists<K, N> {
    pub(super) fn new() -> WatchLists<K, N> {
        let part = || Part { watchers: Mutex::new(Watchers::new()), record: Record::new() };
        let parts = (0..PARTS).map(|_| CachePadded::new(part())).collect();
        WatchLists { parts, panicked: Counter::new(0) }
    }

    /// Adds `node` under `key`. `is_first`: it is under no other key yet. `None`: closed.
    pub(super) fn watch(&self, node: N, key: K, hash: u64, is_first: bool) -> Option<WatchPlace>
    where
        K: Eq,
    {
        let (part, mut key) = (part_of(hash), Some(key));
        let slot = self.lock(part).watch(node, (&mut key, hash), is_first);
        // The lock is released: the key is dropped here, unless the list took it.
        self.contained(|| drop(key));
        slot.map(|slot| WatchPlace { part: part as u32, slot })
    }

    /// Removes an operation from all its places. `decision` is how it ended, if that is to be
    /// counted.
    pub(super) fn leave(&self, places: &Places, decision: Option<Decision>) {
        let mut end = Some(decision);
        for WatchPlace { part, slot } in places.iter() {
            let (node, key) = self.lock(part as usize).leave(slot, end.take());
            self.contained(|| drop((node, key)));
        }
    }

    /// The operations that wait under `key` now.
    pub(super) fn walk<Q>(&self, hash: u64, key: &Q) -> Walk<'_, K, N>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let (part, mut batch) = (part_of(hash), Vec::new());
        let bookmark = self.lock(part).begin(hash, key, &mut batch);
        Walk { lists: self, part, bookmark, batch: batch.into_iter() }
    }

    /// Passes each of `nodes` to `f` and drops it, which may drop its operation.
    pub(super) fn visit(&self, nodes: impl Iterator<Item = N>, mut f: impl FnMut(&N)) {
        for node in nodes {
            f(&node);
            self.contained(|| drop(node));
        }
    }

    /// Closes the lists to new operations, and returns those that wait, once for each key.
    pub(super) fn close(&self) -> Vec<N> {
        (0..PARTS).flat_map(|part| self.lock(part).close()).collect()
    }

    /// Runs `f`, and counts it if it panics.
    pub(super) fn contained(&self, f: impl FnOnce()) {
        if !contained(f) {
            // ORDER: Relaxed - a statistic; nothing is decided on it.
            self.panicked.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn stats(&self) -> Stats {
        // ORDER: Relaxed - as above.
        let panicked = self.panicked.load(Ordering::Relaxed);
        let mut sum = Stats { panicked, ..Stats::default() };
        for part in &self.parts {
            let [delayed, watched, keys, completed, expired, cancelled] = part.record.read();
            sum.delayed += delayed as usize;
            sum.watched += watched as usize;
            sum.keys += keys as usize;
            sum.completed += completed;
            sum.expired += expired;
            sum.cancelled += cancelled;
        }
        sum
    }

    /// Checks every invariant. O(n).
    pub(super) fn check(&self) {
        (0..PARTS).for_each(|part| self.lock(part).check());
    }

    /// Ignores poisoning: a key's `Eq` that panics leaves the part as it was.
    fn lock(&self, part: usize) -> Locked<'_, K, N> {
        let Part { watchers, record } = &*self.parts[part];
        let watchers = watchers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Locked { watchers, record }
    }
}

// === impl Locked ===

impl<K, N: Clone> Deref for Locked<'_, K, N> {
    type Target = Watchers<K, N>;

    fn deref(&self) -> &Watchers<K, N> {
        &self.watchers
    }
}

impl<K, N: Clone> DerefMut for Locked<'_, K, N> {
    fn deref_mut(&mut self) -> &mut Watchers<K, N> {
        &mut self.watchers
    }
}

impl<K, N: Clone> Drop for Locked<'_, K, N> {
    fn drop(&mut self) {
        let Stats { delayed, watched, keys, completed, expired, cancelled, .. } =
            self.watchers.counts();
        let [delayed, watched, keys] = [delayed, watched, keys].map(|n| n as u64);
        self.record.write([delayed, watched, keys, completed, expired, cancelled]);
    }
}

/// The part of a hash. Its bits are not those that a part's table uses: the lowest and the highest.
fn part_of(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

// === impl Walk ===

impl<K, N: Clone> Walk<'_, K, N> {
    /// Collects the next batch, if there is one.
    fn go_on(&mut self) {
        let Some(bookmark) = self.bookmark.take() else { return };
        let mut batch = Vec::with_capacity(BATCH);
        let (bookmark, key) = self.lists.lock(self.part).go_on(bookmark, Some(&mut batch));
        self.lists.contained(|| drop(key));
        self.bookmark = bookmark;
        self.batch = batch.into_iter();
    }
}

impl<K, N: Clone> Iterator for Walk<'_, K, N> {
    type Item = N;

    fn next(&mut self) -> Option<N> {
        if self.batch.len() == 0 {
            // The next batch is empty only at the end of the list.
            self.go_on();
        }
        self.batch.next()
    }
}

impl<K, N: Clone> Drop for Walk<'_, K, N> {
    fn drop(&mut self) {
        if let Some(bookmark) = self.bookmark.take() {
            let (_, key) = self.lists.lock(self.part).go_on(bookmark, None);
            self.lists.contained(|| drop(key));
        }
    }
}

// === impl Places ===

impl Places {
    pub(super) fn push(&mut self, place: WatchPlace) {
        match self.few.get_mut(self.count as usize) {
            Some(free) => *free = place,
            None => self.more.push(place),
        }
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = WatchPlace> {
        let few = &self.few[..FEW.min(self.count as usize)];
        few.iter().chain(&self.more).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_is_given_up_leaves_no_bookmark() {
        let lists: WatchLists<&str, usize> = WatchLists::new();
        let all: Vec<Places> = (0..3 * BATCH)
            .map(|node| {
                let mut places = Places::default();
                places.push(lists.watch(node, "key", 7, true).unwrap());
                places
            })
            .collect();
        let mut walk = lists.walk(7, "key");
        assert_eq!(walk.next(), Some(0));
        assert!(walk.bookmark.is_some(), "there is more than a batch");
        drop(walk);
        all.iter().for_each(|places| lists.leave(places, None));
        lists.check();
        assert_eq!(lists.stats(), Stats::default());
    }

    #[test]
    fn places_come_in_the_order_in_which_they_were_added() {
        for count in 0..3 * FEW as u32 {
            let mut places = Places::default();
            assert!(places.is_empty());
            let all: Vec<WatchPlace> =
                (0..count).map(|slot| WatchPlace { part: slot % 2, slot }).collect();
            all.iter().for_each(|place| places.push(*place));
            assert_eq!(places.iter().collect::<Vec<_>>(), all);
            assert_eq!(places.is_empty(), count == 0);
        }
    }
}
