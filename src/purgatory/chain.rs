//! Lists of watches, threaded through one slab.
//!
//! *Owner*: whoever has the lock of the part.
//!
//! *Invariants*: each watch is in one list, between its ends; the numbers `since` of its watches
//! grow along a list.
//!
//! *Tested by*: the unit tests in `src/purgatory/watchers.rs`.

use std::mem;

use slab::Slab;

use super::watchers::{KEPT, Place};

/// No watch: where a list ends.
pub(super) const NONE: u32 = u32::MAX;

/// As many operations are collected under the lock at a time.
pub(super) const BATCH: usize = 32;

/// All watches of a part. `N` stands for an operation.
pub(super) struct Chains<N> {
    watches: Slab<Watch<N>>,
}

/// One operation under one key.
pub(super) struct Watch<N> {
    /// `None`: a bookmark, where somebody who goes through the list goes on.
    pub(super) node: Option<N>,
    /// The number of its list.
    pub(super) list: u32,
    before: u32,
    after: u32,
    /// Counts the watches of the list.
    since: u64,
    /// Where the operation was watched before it was here too.
    pub(super) earlier: Option<Place>,
}

/// Where a list begins and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) first: u32,
    last: u32,
}

// === impl Chains ===

impl<N: Clone> Chains<N> {
    pub(super) const fn new() -> Chains<N> {
        Chains { watches: Slab::new() }
    }

    pub(super) fn get(&self, watch: u32) -> &Watch<N> {
        &self.watches[watch as usize]
    }

    /// All operations, once for each watch.
    pub(super) fn nodes(&self) -> Vec<N> {
        self.watches.iter().filter_map(|(_, watch)| watch.node.clone()).collect()
    }

    /// Adds a watch at the end of a list.
    pub(super) fn append(&mut self, ends: &mut Ends, watch: Watch<N>) -> u32 {
        let watch = number(self.watches.insert(watch));
        self.link(ends, watch, NONE);
        watch
    }

    /// Puts a new bookmark before the watch `after`, into its list.
    pub(super) fn insert_bookmark(&mut self, ends: &mut Ends, after: u32) -> u32 {
        let mark = Watch { node: None, earlier: None, ..*self.get(after) };
        let mark = number(self.watches.insert(mark));
        self.link(ends, mark, after);
        mark
    }

    /// Moves a bookmark before the watch `after`.
    pub(super) fn move_bookmark(&mut self, ends: &mut Ends, mark: u32, after: u32) {
        self.unlink(ends, mark);
        self.link(ends, mark, after);
    }

    /// Takes a watch out of its list.
    pub(super) fn remove(&mut self, ends: &mut Ends, watch: u32) -> Watch<N> {
        self.unlink(ends, watch);
        let watch = self.watches.remove(watch as usize);
        if self.watches.is_empty() && self.watches.capacity() > KEPT {
            self.watches = Slab::new();
        }
        watch
    }

    /// Clones the operations from `watch` on. Answers the first that there was no room for, or
    /// `NONE` if there is none before the number `until`.
    pub(super) fn collect(&self, mut watch: u32, until: u64, batch: &mut Vec<N>) -> u32 {
        while watch != NONE {
            let Watch { node, since, after, .. } = self.get(watch);
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
    fn link(&mut self, ends: &mut Ends, watch: u32, after: u32) {
        let before = match after {
            NONE => mem::replace(&mut ends.last, watch),
            after => mem::replace(&mut self.watches[after as usize].before, watch),
        };
        match before {
            NONE => ends.first = watch,
            before => self.watches[before as usize].after = watch,
        }
        let this = &mut self.watches[watch as usize];
        (this.before, this.after) = (before, after);
    }

    fn unlink(&mut self, ends: &mut Ends, watch: u32) {
        let Watch { before, after, .. } = self.watches[watch as usize];
        match before {
            NONE => ends.first = after,
            before => self.watches[before as usize].after = after,
        }
        match after {
            NONE => ends.last = before,
            after => self.watches[after as usize].before = before,
        }
    }

    /// Walks a list and its invariants, and answers how many operations are in it, how many of
    /// them for the first time, and how many bookmarks.
    pub(super) fn check(&self, number: u32, ends: Ends, next_since: u64) -> (usize, usize, usize) {
        let (mut before, mut watch, mut since) = (NONE, ends.first, None);
        let (mut watched, mut delayed, mut marks) = (0, 0, 0);
        while watch != NONE {
            let this = self.get(watch);
            assert_eq!((this.list, this.before), (number, before), "the links of watch {watch}");
            if this.node.is_some() {
                assert!(Some(this.since) > since && this.since < next_since);
                since = Some(this.since);
                watched += 1;
                delayed += usize::from(this.earlier.is_none());
            } else {
                marks += 1;
            }
            (before, watch) = (watch, this.after);
        }
        assert_eq!(ends.last, before, "list {number} ends where it says");
        (watched, delayed, marks)
    }

    /// How many watches and bookmarks there are.
    pub(super) fn len(&self) -> usize {
        self.watches.len()
    }
}

// === impl Watch ===

impl<N> Watch<N> {
    pub(super) fn new(node: N, list: u32, since: u64, earlier: Option<Place>) -> Watch<N> {
        Watch { node: Some(node), list, before: NONE, after: NONE, since, earlier }
    }
}

// === impl Ends ===

impl Ends {
    /// Those of an empty list.
    pub(super) const fn new() -> Ends {
        Ends { first: NONE, last: NONE }
    }

    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// A slab's number in half a word.
pub(super) fn number(key: usize) -> u32 {
    u32::try_from(key).ok().filter(|&key| key != NONE).expect("over 4,000,000,000 watches")
}
