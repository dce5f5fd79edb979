//! Rounds at hand: what a flush found in a bucket that belongs to another round of the ring.
//!
//! An owner that is behind its producers finds many rounds in one bucket, due or not. Pushed back
//! into the bucket, each would be gone through once for every round before it; here each waits
//! for the opening that it is filed for, out of its bucket's way. So an entry is looked at once
//! when its bucket is opened and once when its round is, for each time that it was filed.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariant*: what is in here is filed for the opening that it is kept under, is held by its
//! list bit, and is covered by being here.
//!
//! *Tested by*: `tests/{late_turns,rounds}.rs`, `shard/rounds/tests.rs`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::ptr::NonNull;

use crate::entry::Entry;
use crate::inbox::Hand;
use crate::sync::Arc;
use crate::time::{Place, Tick};

use super::hands::Hands;

/// A hand that readers see as well.
type SharedHand<T> = Arc<Hand<Entry<T>>>;

/// Entries by the opening of the bucket that they are filed in.
pub(super) struct Rounds<T> {
    /// Per level, as on the agenda.
    levels: Vec<Level<T>>,
    len: usize,
    /// Hands with nothing in them.
    idle: Vec<SharedHand<T>>,
    /// Which chain is next.
    turn: usize,
}

/// Of one level: by the time of the opening and the slot.
type Level<T> = BTreeMap<(Tick, u32), Arc<Hand<Entry<T>>>>;

// === impl Rounds ===

impl<T> Rounds<T> {
    pub(super) fn new() -> Rounds<T> {
        Rounds { levels: Vec::new(), len: 0, idle: Vec::new(), turn: 0 }
    }

    /// Puts an entry aside that is filed at `place`. O(log n) in the rounds put aside.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit, and leaves it here.
    pub(super) unsafe fn add(&mut self, hands: &Hands<T>, place: Place, entry: NonNull<Entry<T>>) {
        let level = usize::from(place.level);
        if self.levels.len() < level {
            self.levels.resize_with(level, BTreeMap::new);
        }
        let (idle, len) = (&mut self.idle, &mut self.len);
        let begin = || {
            *len += 1;
            let hand = idle.pop().unwrap_or_else(|| hands.add());
            hand.begin(place_of(place.level, place.slot));
            hand
        };
        let key = (place.expiration, place.slot);
        let hand = self.levels[level - 1].entry(key).or_insert_with(begin);
        self.turn = self.turn.wrapping_add(1);
        // SAFETY: passed on to the caller.
        unsafe { hand.give(entry, self.turn) };
    }

    /// Whether nothing waits here.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many levels may have something here: those from 1 to this.
    pub(super) fn levels(&self) -> u8 {
        self.levels.len() as u8
    }

    /// The round of `level` that opens next.
    pub(super) fn first_of(&self, level: u8) -> Option<Place> {
        let rounds = self.levels.get(usize::from(level) - 1)?;
        let (&(expiration, slot), _) = rounds.first_key_value()?;
        Some(Place { level, slot, expiration })
    }

    /// The round that opens next; of several at the same time, one of the highest level.
    pub(super) fn first(&self) -> Option<Place> {
        let levels = (1..=self.levels()).rev();
        levels.filter_map(|level| self.first_of(level)).min_by_key(|place| place.expiration)
    }

    /// Takes out the round of `place`.
    pub(super) fn take(&mut self, place: Place) -> Option<Arc<Hand<Entry<T>>>> {
        let rounds = self.levels.get_mut(usize::from(place.level) - 1)?;
        let hand = rounds.remove(&(place.expiration, place.slot))?;
        self.len -= 1;
        Some(hand)
    }

    /// Takes in a hand with nothing in it.
    pub(super) fn put_away(&mut self, hand: Arc<Hand<Entry<T>>>) {
        self.idle.push(hand);
    }

    /// The first round after `place`, in order of levels and then of time.
    pub(super) fn next_after(&self, place: Place) -> Option<(Place, Arc<Hand<Entry<T>>>)> {
        (place.level..=self.levels()).find_map(|level| {
            let from = if level == place.level {
                Bound::Excluded((place.expiration, place.slot))
            } else {
                Bound::Unbounded
            };
            let rounds = &self.levels[usize::from(level) - 1];
            let (&(expiration, slot), hand) = rounds.range((from, Bound::Unbounded)).next()?;
            Some((Place { level, slot, expiration }, hand.clone()))
        })
    }

    /// What waits here and where it is filed, for checks.
    pub(super) fn rest(&self) -> impl Iterator<Item = (Place, NonNull<Entry<T>>)> + '_ {
        self.levels.iter().zip(1..).flat_map(|(rounds, level)| {
            rounds.iter().flat_map(move |(&(expiration, slot), hand)| {
                let place = Place { level, slot, expiration };
                hand.rest().map(move |entry| (place, entry))
            })
        })
    }
}

/// Level and slot in one word, for readers of a hand.
pub(super) fn place_of(level: u8, slot: u32) -> u64 {
    u64::from(level) << u32::BITS | u64::from(slot)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
