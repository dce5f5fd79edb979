//! Rounds at hand: entries that a flush found in a bucket and that belong to another round of the
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

use crate::entry::Entry;
use crate::inbox::Hand;
use crate::sync::Arc;
use crate::time::Place;

use super::ArmedHeap;
use super::hands::Hands;

/// Entries by the opening of the bucket that they are filed in.
pub(super) struct Rounds<T> {
    /// The hand of each round.
    pub(super) opens: ArmedHeap<Arc<Hand<Entry<T>>>>,
    /// Empty hands. (It keeps its capacity: eager cascading constantly files rounds of level 1 that
    /// are put aside.)
    idle: Vec<Arc<Hand<Entry<T>>>>,
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
    pub(super) unsafe fn add(&mut self, hands: &Hands<T>, place: Place, entry: NonNull<Entry<T>>) {
        let idle = &mut self.idle;
        let hand = self.opens.value_of(place, || {
            let hand = idle.pop().unwrap_or_else(|| hands.add());
            hand.begin(place_of(place.level, place.slot));
            hand
        });
        self.lane = self.lane.wrapping_add(1);
        // SAFETY: passed on to the caller.
        unsafe { hand.give(entry, self.lane) };
    }

    /// Whether no round waits here.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.opens.first().is_none()
    }

    /// Takes back an empty hand.
    pub(super) fn put_away(&mut self, hand: Arc<Hand<Entry<T>>>) {
        self.idle.push(hand);
    }
}

/// Level and slot in one word, for readers of a hand.
pub(super) fn place_of(level: u8, slot: u32) -> u64 {
    u64::from(level) << u32::BITS | u64::from(slot)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
