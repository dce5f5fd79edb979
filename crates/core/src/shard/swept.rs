//! How far a sweep has come: the bucket or round that it is in, and its place in each list there.
//!
//! *Owner*: the shard's owner, with which it lies; `sweep` does the work.
//!
//! *Tested by*: as `sweep`.

use std::array;
use std::ptr;

use crate::entry::Entry;
use crate::inbox::CHAINS;
use crate::sync::prefetch;
use crate::time::Place;

/// The sweep under way.
pub(super) struct Sweep<T> {
    /// `None`: none is under way.
    pub(super) at: Option<Swept>,
    /// The lists that have entries left come first.
    pub(super) lists: [Cursor<T>; CHAINS],
    /// The index of the list that is visited next.
    pub(super) current: usize,
    /// How many lists have entries left.
    pub(super) live: usize,
    /// Rounds that are swept after all buckets.
    pub(super) rounds: Vec<Place>,
}

/// What is being swept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Swept {
    /// A bucket, by level and slot.
    Bucket(u8, u32),
    /// A round that was put aside.
    Round(Place),
}

/// A sweep's position in a list.
pub(super) struct Cursor<T> {
    /// Which list of its bucket or tray it is.
    pub(super) number: usize,
    /// The entry before `next`, which stays in the list; null if there is none.
    pub(super) before: *mut Entry<T>,
    /// The entry that is visited next.
    pub(super) next: *mut Entry<T>,
}

// SAFETY: entries are shared between threads; only the owner probes at what it points to.
unsafe impl<T: Send> Send for Sweep<T> {}

// === impl Sweep ===

impl<T> Sweep<T> {
    /// No sweep is under way.
    pub(super) fn none() -> Sweep<T> {
        let list = |_| Cursor { number: 0, before: ptr::null_mut(), next: ptr::null_mut() };
        Sweep { at: None, lists: array::from_fn(list), current: 0, live: 0, rounds: Vec::new() }
    }

    /// Whether a sweep is under way, perhaps paused.
    #[inline]
    pub(super) fn is_under_way(&self) -> bool {
        self.at.is_some()
    }

    /// The owner opens a bucket or a round: the sweep goes no further in it.
    #[inline]
    pub(super) fn leave(&mut self, opened: Swept) {
        if self.at == Some(opened) && self.live > 0 {
            self.live = 0;
        }
    }

    /// Goes on to lists, given by their first entries.
    pub(super) fn enter(&mut self, at: Swept, heads: impl IntoIterator<Item = *mut Entry<T>>) {
        (self.at, self.current, self.live) = (Some(at), 0, 0);
        let heads = heads.into_iter().enumerate();
        for (number, next) in heads.filter(|(_, first)| !first.is_null()) {
            prefetch(next.addr());
            self.lists[self.live] = Cursor { number, before: ptr::null_mut(), next };
            self.live += 1;
        }
    }

    /// Goes on to the next list. The last live list replaces one that is done.
    pub(super) fn step(&mut self, is_done: bool) {
        if is_done {
            self.live -= 1;
            self.lists.swap(self.current, self.live);
        }
        self.current = if self.current + 1 < self.live { self.current + 1 } else { 0 };
    }
}
