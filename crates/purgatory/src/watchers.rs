//! The operations that wait under each key of one part, behind the part's lock.
//!
//! Each key has a list of operations, in the order in which they were registered. An operation
//! whose slot is known leaves in constant time. A key is removed with its last operation, and the
//! memory of a burst is freed when the burst is over.
//!
//! *Owner*: the thread that holds the lock. The only code of the user that runs here is `Eq` of
//! keys, in lookups; if it panics, nothing has changed yet. Keys and operations are returned to the
//! caller, which drops them.
//!
//! *Invariants*: a list is not empty, and the table has it under its key's hash; the counts are
//! sums over all lists.
//!
//! *Tested by*: the unit tests below, `tests/oracles/purgatory.rs`.

use std::borrow::Borrow;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Decision;
use super::blocks::{Blocks, Bookmark, Ends, Freed};

/// The table is not shrunk below this number of lists.
const KEPT: usize = 64;

/// Statistics of a purgatory since it was created. They cover operations that waited; operations
/// that complete immediately, before they wait, are not included.
///
/// While other threads use the purgatory, the numbers of one reading may be inconsistent with one
/// another by a few operations.
///
/// ```
/// use std::time::Duration;
/// use tickless_purgatory::{Operation, Purgatory};
///
/// struct Fetch;
/// impl Operation for Fetch {
///     fn try_complete(&self) -> bool {
///         false
///     }
///     fn on_complete(&self) {}
/// }
///
/// let purgatory = Purgatory::new()?;
/// purgatory.try_complete_else_watch(Fetch.into(), [1, 2], Duration::from_secs(30))?;
/// purgatory.try_complete_else_watch(Fetch.into(), [2], Duration::from_secs(30))?;
/// let stats = purgatory.stats();
/// assert_eq!((stats.delayed, stats.watched, stats.keys), (2, 3, 2));
/// purgatory.stop();
/// assert_eq!(purgatory.stats().cancelled, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of operations that wait.
    pub delayed: usize,
    /// The same, with each operation counted once for each of its keys.
    pub watched: usize,
    /// The number of keys under which an operation waits.
    pub keys: usize,
    /// Operations that completed after they had begun to wait, by themselves or by force. (One that
    /// completes at its registration, before it waits under a key, does not count.)
    pub completed: u64,
    /// Operations that timed out.
    pub expired: u64,
    /// Operations that were cancelled or returned by `stop`.
    pub cancelled: u64,
    /// Panics of callbacks, and of drops of keys and operations. (Drops with the task of a timer
    /// that fires are counted by the engine.)
    pub panicked: u64,
}

/// Keys, and the operations under them. `N` stands for an operation.
pub(super) struct Watchers<K, N> {
    lists: HashTable<List<K>>,
    blocks: Blocks<N>,
    /// Sums over all lists.
    counts: Stats,
    is_closed: bool,
}

struct List<K> {
    key: K,
    hash: u64,
    ends: Ends,
}

// === impl Watchers ===

impl<K, N: Clone> Watchers<K, N> {
    pub(super) fn new() -> Watchers<K, N> {
        Watchers {
            lists: HashTable::new(),
            blocks: Blocks::new(),
            counts: Stats::default(),
            is_closed: false,
        }
    }

    /// Adds `node` under `key` and returns its slot; `None`: closed. `is_first`: it is under no
    /// other key yet. Takes the key if it is new here. Otherwise, and also if its `Eq` panics, the
    /// caller has to drop the key.
    pub(super) fn watch(
        &mut self,
        node: N,
        (key, hash): (&mut Option<K>, u64),
        is_first: bool,
    ) -> Option<u32>
    where
        K: Eq,
    {
        if self.is_closed {
            return None;
        }
        let is_it = |list: &List<K>| list.hash == hash && key.as_ref() == Some(&list.key);
        let list = match self.lists.entry(hash, is_it, |list| list.hash) {
            Entry::Occupied(place) => place.into_mut(),
            Entry::Vacant(place) => {
                place.insert(List { key: key.take()?, hash, ends: Ends::new() }).into_mut()
            }
        };
        self.counts.watched += 1;
        self.counts.delayed += usize::from(is_first);
        Some(self.blocks.push(hash, &mut list.ends, node))
    }

    /// Removes the operation in a slot. `end` is given for the operation's first slot: how the
    /// operation ended, if that is to be counted. Also returns the key if its list is empty now.
    pub(super) fn leave(&mut self, slot: u32, end: Option<Option<Decision>>) -> (N, Option<K>) {
        self.counts.watched -= 1;
        self.counts.delayed -= usize::from(end.is_some());
        match end.flatten() {
            Some(Decision::Completed) => self.counts.completed += 1,
            Some(Decision::Expired) => self.counts.expired += 1,
            Some(Decision::Cancelled) => self.counts.cancelled += 1,
            None => {}
        }
        let (node, freed) = self.blocks.take(slot);
        (node, freed.and_then(|freed| self.forget(&freed)))
    }

    /// Begins a walk along a key's list: collects the first operations, at most a batch. The
    /// bookmark says where the rest begins.
    pub(super) fn begin<Q>(&mut self, hash: u64, key: &Q, batch: &mut Vec<N>) -> Option<Bookmark>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let is_it = |list: &List<K>| list.hash == hash && list.key.borrow() == key;
        self.blocks.begin(self.lists.find(hash, is_it)?.ends, batch)
    }

    /// Continues at `mark`, or ends the walk there if there is no batch. Returns the key if its
    /// list is empty now.
    pub(super) fn go_on(
        &mut self,
        mark: Bookmark,
        batch: Option<&mut Vec<N>>,
    ) -> (Option<Bookmark>, Option<K>) {
        let (next, freed) = self.blocks.go_on(mark, batch);
        (next, freed.and_then(|freed| self.forget(&freed)))
    }

    /// Closes the part to new operations, and returns those that wait, once for each key.
    pub(super) fn close(&mut self) -> Vec<N> {
        self.is_closed = true;
        self.blocks.nodes()
    }

    pub(super) fn counts(&self) -> Stats {
        Stats { keys: self.lists.len(), ..self.counts }
    }

    /// Completes the removal of a block from its list. Returns the list's key if the list is empty
    /// now, and was removed.
    fn forget(&mut self, freed: &Freed) -> Option<K> {
        if freed.was_inside() {
            return None;
        }
        let place = self.lists.find_entry(freed.hash, |list| list.ends.has(freed));
        let mut place = place.ok().expect("the list of each block is in the table");
        place.get_mut().ends.forget(freed);
        if !place.get().ends.is_empty() {
            return None;
        }
        let (List { key, .. }, _) = place.remove();
        let (len, capacity) = (self.lists.len(), self.lists.capacity());
        if capacity > KEPT && len < capacity / 8 {
            self.lists.shrink_to(2 * len, |list| list.hash);
        }
        Some(key)
    }

    /// Checks every invariant. O(n).
    pub(super) fn check(&self) {
        let (mut watched, mut blocks) = (0, 0);
        for List { hash, ends, .. } in &self.lists {
            assert!(!ends.is_empty(), "each list has a block");
            let (operations, of_list) = self.blocks.check(*hash, *ends);
            (watched, blocks) = (watched + operations, blocks + of_list);
        }
        assert_eq!(blocks, self.blocks.len(), "each block is in a list");
        assert_eq!(watched, self.counts.watched, "the count is the sum");
        assert!(self.counts.delayed <= watched, "who waits is watched");
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::BATCH;
    use super::*;

    type Few = Watchers<&'static str, usize>;

    /// Watches `node` under `key`, whose length is its hash here.
    fn watch(few: &mut Few, node: usize, key: &'static str) -> u32 {
        let hash = key.len() as u64;
        few.watch(node, (&mut Some(key), hash), true).unwrap()
    }

    fn leave(few: &mut Few, slot: u32) -> (usize, Option<&'static str>) {
        few.leave(slot, Some(None))
    }

    /// All operations under `key`, batch by batch; `between` runs between two batches.
    fn walk(few: &mut Few, key: &str, mut between: impl FnMut(&mut Few)) -> Vec<Vec<usize>> {
        let mut batch = Vec::new();
        let mut mark = few.begin(key.len() as u64, key, &mut batch);
        let mut batches = vec![batch];
        while let Some(bookmark) = mark {
            few.check();
            between(few);
            let mut batch = Vec::new();
            (mark, _) = few.go_on(bookmark, Some(&mut batch));
            batches.push(batch);
        }
        few.check();
        batches
    }

    #[test]
    fn a_long_list_comes_in_batches_with_nobody_twice_or_left_out() {
        let mut few = Few::new();
        (0..3 * BATCH).for_each(|node| _ = watch(&mut few, node, "a"));
        let batches = walk(&mut few, "a", |_| ());
        assert!(batches.iter().all(|batch| batch.len() <= BATCH));
        assert_eq!(batches.concat(), (0..3 * BATCH).collect::<Vec<_>>());
    }

    #[test]
    fn who_comes_later_is_not_part_of_a_walk() {
        let mut few = Few::new();
        (0..BATCH + 1).for_each(|node| _ = watch(&mut few, node, "a"));
        let batches = walk(&mut few, "a", |few| _ = watch(few, 999, "a"));
        assert_eq!(batches.concat(), (0..BATCH + 1).collect::<Vec<_>>());
    }

    #[test]
    fn a_walk_survives_that_all_others_leave() {
        let mut few = Few::new();
        let mut slots: Vec<u32> = (0..2 * BATCH).map(|n| watch(&mut few, n, "a")).collect();
        let batches = walk(&mut few, "a", |few| {
            for (node, slot) in slots.drain(..).enumerate() {
                assert_eq!(leave(few, slot), (node, None), "the bookmark keeps the key");
            }
        });
        assert_eq!(batches.concat(), (0..BATCH).collect::<Vec<_>>());
        assert_eq!(few.counts(), Stats::default(), "the bookmark was the last under the key");
    }

    #[test]
    fn long_lists_lie_beside_one_another() {
        let mut few = Few::new();
        for node in 0..6 * BATCH {
            watch(&mut few, node, ["a", "b", "long"][node % 3]);
        }
        for (rest, key) in ["a", "b", "long"].into_iter().enumerate() {
            let batches = walk(&mut few, key, |_| ());
            assert_eq!(batches.concat(), (rest..6 * BATCH).step_by(3).collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_walks_do_not_see_each_others_bookmarks() {
        let mut few = Few::new();
        (0..2 * BATCH).for_each(|node| _ = watch(&mut few, node, "a"));
        let mut inner = Vec::new();
        let batches = walk(&mut few, "a", |few| inner.push(walk(few, "a", |_| ()).concat()));
        let all: Vec<usize> = (0..2 * BATCH).collect();
        assert_eq!((batches.concat(), inner), (all.clone(), vec![all]));
    }
}
