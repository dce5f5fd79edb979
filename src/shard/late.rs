//! Later rounds, found by a late turn.
//!
//! A turn that comes late by more than a round of the ring finds several rounds in one bucket, all
//! of them due. What belongs to a later one waits here for its place in the order; pushed back
//! into the bucket, it would be gone through once for each round between.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariant*: everything in here is due in the turn that put it here, and is held by its list
//! bit. A turn that is bounded may leave something for the next.
//!
//! *Tested by*: `tests/late_turns.rs`.

use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::entry::Entry;
use crate::inbox::Walk;
use crate::time::{Place, Tick};

/// Entries by the opening of the bucket that they are filed in.
pub(super) struct Late<T> {
    rounds: BTreeMap<(Tick, u8, u32), Walk<Entry<T>>>,
}

// === impl Late ===

impl<T> Late<T> {
    pub(super) fn new() -> Late<T> {
        Late { rounds: BTreeMap::new() }
    }

    /// Puts an entry aside that is filed at `place`. O(log n) in the rounds put aside.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit, and leaves it here.
    pub(super) unsafe fn add(&mut self, place: Place, entry: NonNull<Entry<T>>) {
        let key = (place.expiration, place.level, place.slot);
        let round = self.rounds.entry(key).or_insert_with(Walk::empty);
        // SAFETY: passed on to the caller.
        unsafe { round.add(entry) };
    }

    /// Takes out what was to be opened first, if that is not after `limit` (`None`: whenever).
    pub(super) fn pop_until(&mut self, limit: Option<Tick>) -> Option<(Place, Walk<Entry<T>>)> {
        let first = self.rounds.first_entry()?;
        let &(expiration, level, slot) = first.key();
        let is_first = limit.is_none_or(|limit| expiration <= limit);
        is_first.then(|| (Place { level, slot, expiration }, first.remove()))
    }

    /// Whether nothing waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// What waits here, for checks.
    pub(super) fn rest(&self) -> impl Iterator<Item = NonNull<Entry<T>>> + '_ {
        self.rounds.values().flat_map(Walk::rest)
    }
}
