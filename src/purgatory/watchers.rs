//! Which operations wait under which keys: one part of the keys, for whoever has its lock.
//!
//! Each key has a list of *watches*, in the order in which they were made, threaded through one
//! slab, so that a watch that is known by its number leaves in constant time. A key whose last
//! watch leaves is taken out, and memory that a burst needed goes back when it is over.
//!
//! *Owner*: whoever has the lock. No code of the user runs here but `Eq` of a key that is looked
//! up: if that panics, nothing has changed yet. Keys and operations are handed out to be dropped.
//!
//! *Invariants*: a list is not empty; its ends are `first` and `last`; the numbers `since` of its
//! watches grow; the counts are the sums over all lists.
//!
//! *Tested by*: the unit tests beside this, `tests/purgatory_oracle.rs`.

use std::borrow::Borrow;
use std::fmt;
use std::iter::Sum;
use std::mem;

use hashbrown::HashTable;
use slab::Slab;

use super::trial::Decision;

/// No watch: where a list ends.
const NONE: u32 = u32::MAX;

/// Memory for so many is kept whatever happens.
const KEPT: usize = 64;

/// As many operations are collected under the lock at a time.
pub(super) const BATCH: usize = 32;

/// Keys, and who waits under them. `N` stands for an operation.
pub(super) struct Watchers<K, N> {
    /// Numbers of lists, by the hashes of their keys.
    table: HashTable<u32>,
    lists: Slab<List<K>>,
    watches: Slab<Watch<N>>,
    counts: Counts,
    is_closed: bool,
}

/// Sums over watchers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) keys: usize,
    /// Operations, once for each of their keys.
    pub(super) watched: usize,
    /// Operations, at the place that was their first.
    pub(super) delayed: usize,
    pub(super) completed: u64,
    pub(super) expired: u64,
    pub(super) cancelled: u64,
}

struct List<K> {
    key: K,
    hash: u64,
    first: u32,
    last: u32,
    /// The number of the next watch here.
    next_since: u64,
}

struct Watch<N> {
    /// `None`: a bookmark, where somebody who goes through the list goes on.
    node: Option<N>,
    list: u32,
    before: u32,
    after: u32,
    /// Counts the watches of the list.
    since: u64,
    /// Where the operation was watched before it was here too.
    earlier: Option<Place>,
}

/// Where an operation is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the part.
    pub(super) part: u32,
    watch: u32,
}

/// What is to be dropped or looked at when the lock is let go.
#[derive(Debug)]
pub(super) struct Left<K, N> {
    pub(super) node: Option<N>,
    pub(super) earlier: Option<Place>,
    /// A key under which nobody waits any more.
    pub(super) key: Option<K>,
}

/// How far somebody has come who goes through a list.
#[derive(Debug)]
pub(super) struct Bookmark {
    watch: u32,
    /// Watches from this number on were made later.
    until: u64,
}

// === impl Watchers ===

impl<K, N: Clone> Watchers<K, N> {
    pub(super) fn new() -> Watchers<K, N> {
        Watchers {
            table: HashTable::new(),
            lists: Slab::new(),
            watches: Slab::new(),
            counts: Counts::default(),
            is_closed: false,
        }
    }

    /// Watches `node` under `key`, in the part that has number `part`. Answers the place, and the
    /// key if it was known already. `Err`: closed.
    pub(super) fn watch(
        &mut self,
        node: N,
        (key, hash): (K, u64),
        part: u32,
        earlier: Option<Place>,
    ) -> Result<(Place, Option<K>), K>
    where
        K: Eq,
    {
        if self.is_closed {
            return Err(key);
        }
        let (list, spare_key) = match self.find(hash, &key) {
            Some(list) => (list, Some(key)),
            None => (self.insert_key(key, hash), None),
        };
        let since = self.lists[list as usize].next_since;
        self.lists[list as usize].next_since += 1;
        self.counts.watched += 1;
        self.counts.delayed += usize::from(earlier.is_none());
        let watch = self.insert(Watch {
            node: Some(node),
            list,
            before: NONE,
            after: NONE,
            since,
            earlier,
        });
        self.link(watch, NONE);
        Ok((Place { part, watch }, spare_key))
    }

    /// Takes the watch at `place` out; `decision` is how its operation ended, if that counts.
    pub(super) fn leave(&mut self, place: Place, decision: Option<Decision>) -> Left<K, N> {
        self.counts.watched -= 1;
        if self.watches[place.watch as usize].earlier.is_none() {
            self.counts.delayed -= 1;
            match decision {
                Some(Decision::Completed) => self.counts.completed += 1,
                Some(Decision::Expired) => self.counts.expired += 1,
                Some(Decision::Cancelled) => self.counts.cancelled += 1,
                None => {}
            }
        }
        self.remove(place.watch)
    }

    /// Begins to go through a key's list: collects the first operations, at most [`BATCH`]. The
    /// bookmark says where more are.
    pub(super) fn begin<Q>(&mut self, hash: u64, key: &Q, batch: &mut Vec<N>) -> Option<Bookmark>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let list = self.find(hash, key)?;
        let List { first, next_since: until, .. } = self.lists[list as usize];
        let next = self.collect(first, until, batch);
        if next == NONE {
            return None;
        }
        let (earlier, since) = (None, 0);
        let mark = Watch { node: None, list, before: NONE, after: NONE, since, earlier };
        let watch = self.insert(mark);
        self.link(watch, next);
        Some(Bookmark { watch, until })
    }

    /// Goes on where `mark` is.
    pub(super) fn go_on(
        &mut self,
        mark: Bookmark,
        batch: &mut Vec<N>,
    ) -> (Option<Bookmark>, Option<K>) {
        let after = self.watches[mark.watch as usize].after;
        let next = self.collect(after, mark.until, batch);
        if next == NONE {
            return (None, self.close_book(mark));
        }
        self.unlink(mark.watch);
        self.link(mark.watch, next);
        (Some(mark), None)
    }

    /// Takes a bookmark out. Answers the key if nobody waits there any more.
    pub(super) fn close_book(&mut self, mark: Bookmark) -> Option<K> {
        self.remove(mark.watch).key
    }

    /// Lets nobody in any more, and answers everybody who is there, once for each key.
    pub(super) fn close(&mut self) -> Vec<N> {
        self.is_closed = true;
        self.watches.iter().filter_map(|(_, watch)| watch.node.clone()).collect()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { keys: self.lists.len(), ..self.counts }
    }

    fn find<Q>(&self, hash: u64, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let is_it = |&list: &u32| {
            let list = &self.lists[list as usize];
            list.hash == hash && list.key.borrow() == key
        };
        self.table.find(hash, is_it).copied()
    }

    fn insert_key(&mut self, key: K, hash: u64) -> u32 {
        let list = List { key, hash, first: NONE, last: NONE, next_since: 0 };
        let list = number(self.lists.insert(list));
        let lists = &self.lists;
        self.table.insert_unique(hash, list, |&list| lists[list as usize].hash);
        list
    }

    fn insert(&mut self, watch: Watch<N>) -> u32 {
        number(self.watches.insert(watch))
    }

    /// Takes a watch or bookmark out, and its list if that is empty now.
    fn remove(&mut self, watch: u32) -> Left<K, N> {
        self.unlink(watch);
        let Watch { node, list, earlier, .. } = self.watches.remove(watch as usize);
        if self.watches.is_empty() && self.watches.capacity() > KEPT {
            self.watches = Slab::new();
        }
        let is_empty = self.lists[list as usize].first == NONE;
        Left { node, earlier, key: is_empty.then(|| self.remove_key(list)) }
    }

    fn remove_key(&mut self, list: u32) -> K {
        let List { key, hash, .. } = self.lists.remove(list as usize);
        let entry = self.table.find_entry(hash, |&other| other == list);
        entry.expect("every list is in the table").remove();
        if self.lists.is_empty() && self.lists.capacity() > KEPT {
            self.lists = Slab::new();
        }
        let (len, capacity) = (self.table.len(), self.table.capacity());
        if capacity > KEPT && len < capacity / 8 {
            let lists = &self.lists;
            self.table.shrink_to(2 * len, |&list| lists[list as usize].hash);
        }
        key
    }

    /// Clones the operations from `watch` on. Answers the first that there was no room for, or
    /// `NONE` if there is none that was watched before `until`.
    fn collect(&self, mut watch: u32, until: u64, batch: &mut Vec<N>) -> u32 {
        while watch != NONE {
            let Watch { node, since, after, .. } = &self.watches[watch as usize];
            if let Some(node) = node {
                if *since >= until {
                    return NONE;
                }
                if batch.len() == BATCH {
                    return watch;
                }
                batch.push(node.clone());
            }
            watch = *after;
        }
        NONE
    }

    /// Links a watch into its list: before `after`, or at the end.
    fn link(&mut self, watch: u32, after: u32) {
        let list = &mut self.lists[self.watches[watch as usize].list as usize];
        let before = match after {
            NONE => mem::replace(&mut list.last, watch),
            after => mem::replace(&mut self.watches[after as usize].before, watch),
        };
        match before {
            NONE => list.first = watch,
            before => self.watches[before as usize].after = watch,
        }
        let this = &mut self.watches[watch as usize];
        (this.before, this.after) = (before, after);
    }

    fn unlink(&mut self, watch: u32) {
        let Watch { list, before, after, .. } = self.watches[watch as usize];
        let list = &mut self.lists[list as usize];
        match before {
            NONE => list.first = after,
            before => self.watches[before as usize].after = after,
        }
        match after {
            NONE => list.last = before,
            after => self.watches[after as usize].before = before,
        }
    }

    /// Walks every invariant. O(n).
    pub(super) fn check(&self) {
        let mut counts = Counts { keys: self.table.len(), ..self.counts };
        (counts.watched, counts.delayed) = (0, 0);
        let mut seen = 0;
        for (number, list) in &self.lists {
            assert!(self.table.find(list.hash, |&other| other as usize == number).is_some());
            assert_ne!(list.first, NONE, "a list is not empty");
            let (mut before, mut watch, mut since) = (NONE, list.first, None);
            while watch != NONE {
                let this = &self.watches[watch as usize];
                assert_eq!((this.list as usize, this.before), (number, before));
                if this.node.is_some() {
                    assert!(Some(this.since) > since && this.since < list.next_since);
                    since = Some(this.since);
                    counts.watched += 1;
                    counts.delayed += usize::from(this.earlier.is_none());
                }
                seen += 1;
                (before, watch) = (watch, this.after);
            }
            assert_eq!(list.last, before, "a list ends where it says");
        }
        assert_eq!(seen, self.watches.len(), "each watch is in a list");
        assert_eq!(counts, self.counts());
    }
}

impl<K, N> fmt::Debug for Watchers<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |a, b| Counts {
            keys: a.keys + b.keys,
            watched: a.watched + b.watched,
            delayed: a.delayed + b.delayed,
            completed: a.completed + b.completed,
            expired: a.expired + b.expired,
            cancelled: a.cancelled + b.cancelled,
        })
    }
}

/// A slab's number in half a word.
fn number(key: usize) -> u32 {
    u32::try_from(key).ok().filter(|&key| key != NONE).expect("over 4,000,000,000 watches")
}
