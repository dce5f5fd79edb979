//! Rounds put aside: entries that a flush found in a bucket and that belong to another round of the
//! ring.
//!
//! An owner that is behind its producers finds many rounds in one bucket, due or not. If they were
//! pushed back into the bucket, each would be visited once for every round before it. Instead, each
//! waits here for the opening that it is filed for, out of its bucket's way. So for each time that
//! it was filed, an entry is visited once when its bucket is opened and once when its round is.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariant*: each entry in here is filed for the opening that it is kept under, is held by its
//! list bit, and is covered by being here.
//!
//! *Tested by*: `tests/suite/engine/late_turns.rs`, `tests/suite/engine/rounds.rs`,
//! `shard/rounds/tests.rs`.

use std::ptr::NonNull;

use crate::entry::{Entry, Guard};
use crate::inbox::Tray;
use crate::sync::Arc;
use crate::time::Place;

use super::ArmedHeap;
use super::trays::Trays;

/// Entries by the opening of the bucket that they are filed in. (All collections keep their
/// capacity: eager cascading constantly files rounds of level 1 that are put aside.)
pub(super) struct Rounds<T> {
    /// When each round opens, and the tray that has its entries.
    pub(super) opens: ArmedHeap<Arc<Tray<Entry<T>>>>,
    /// Empty trays.
    idle: Vec<Arc<Tray<Entry<T>>>>,
    /// Which chain is next.
    lane: usize,
}

// === impl Rounds ===

impl<T> Rounds<T> {
    pub(super) fn new() -> Rounds<T> {
        Rounds { opens: ArmedHeap::default(), idle: Vec::new(), lane: 0 }
    }

    /// Puts an entry aside that is filed at `place`. O(log n) in the rounds put aside.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit, and gives it up.
    pub(super) unsafe fn add(&mut self, trays: &Trays<T>, place: Place, entry: NonNull<Entry<T>>) {
        let begin = || {
            let tray = self.idle.pop().unwrap_or_else(|| trays.add());
            tray.begin(bucket_number(place.level, place.slot));
            tray
        };
        let tray = self.opens.at_or_add(place, begin);
        self.lane = self.lane.wrapping_add(1);
        // SAFETY: passed on to the caller.
        unsafe { tray.give(entry, self.lane) };
    }

    /// Whether no round waits here.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.opens.first().is_none()
    }

    /// Takes out the round of `place` if that is the first of its level.
    pub(super) fn take(&mut self, place: Place) -> Option<Arc<Tray<Entry<T>>>> {
        let is_first = self.opens.first_of(place.level) == Some(place);
        is_first.then(|| self.opens.remove(place))
    }

    /// Takes back an empty tray.
    pub(super) fn put_away(&mut self, tray: Arc<Tray<Entry<T>>>) {
        self.idle.push(tray);
    }

    /// The entries that wait here and their places, for checks.
    pub(super) fn rest<'g>(
        &'g self,
        guard: Guard<'g>,
    ) -> impl Iterator<Item = (Place, &'g Entry<T>)> {
        let trays = self.opens.iter().filter_map(|place| Some((place, self.opens.at(place)?)));
        trays.flat_map(move |(place, tray)| tray.rest(guard).map(move |entry| (place, entry)))
    }
}

/// Level and slot in one word, for readers of a tray.
pub(super) fn bucket_number(level: u8, slot: u32) -> u64 {
    u64::from(level) << u32::BITS | u64::from(slot)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
