//! Opening: which bucket the owner opens next, and how it gets at the entries in there.
//!
//! Entries that may be due are in four places. The owner looks for them in this order:
//!
//! 1. *parked* buckets, if it is their turn (`parked`);
//! 2. the *armed heap*: buckets that nobody has opened for this round;
//! 3. the trays that wait for their opening: an *eager cascade* that is under way (`eager`), and
//!    *rounds* that were put aside (`rounds`). If one of them opens no later than the first armed
//!    bucket, it comes before that;
//! 4. parked buckets, if nothing else is due.
//!
//! An open bucket's entries are in a tray, where readers find them. What happens to each is in
//! `flush`.
//!
//! *Owner*: the shard's owner.
//!
//! *Orderings*: BUCKET-ARM: the shard's clock reaches an armed bucket's expiration before its item
//! leaves the armed heap and its lists are taken. (An eager cascade takes lists earlier, and leaves
//! the item.)

use std::cmp::Reverse;

use crate::entry::Entry;
use crate::inbox::{At, Tray};
use crate::sync::Arc;
use crate::sync::events::{Event, reached};
use crate::time::{Place, Tick};

use super::rounds::bucket_number;
use super::sweep::Swept;
use super::{Bucket, Owner, Shard};

/// A bucket or a round that the owner goes through.
pub(super) struct Open<T> {
    /// Its expiration is the present, and not when it opened, once the bucket was parked.
    pub(super) place: Place,
    /// Has its entries.
    pub(super) tray: Arc<Tray<Entry<T>>>,
    /// How far the owner has come in there.
    pub(super) at: At,
    /// So many entries are still looked at before the bucket may be parked.
    pub(super) left: usize,
    /// When it opened, if it was parked since.
    pub(super) began: Option<Tick>,
}

impl<T> Shard<T> {
    /// Opens the first bucket or round that is due at `now`: its entries are then in a tray. Goes
    /// on with a parked one if it is its turn, or if no other is due. Returns `false` if none is.
    pub fn open_due(&self, owner: &mut Owner<T>, now: Tick) -> bool {
        debug_assert!(owner.due.is_none(), "one bucket at a time");
        debug_assert!(now <= self.clock(), "the clock is stored before a list is taken");
        if owner.parked.is_its_turn() {
            return self.go_on(owner, now);
        }
        let armed = owner.heap.first().filter(|place| place.expiration <= now);
        if owner.has_in_trays() {
            owner.due = self.take_due_from_trays(owner, armed, now);
        }
        if owner.due.is_none() {
            let Some(place) = armed else {
                return !owner.parked.is_empty() && self.go_on(owner, now);
            };
            let bucket = self.wheel.bucket(place).expect("what is on the heap exists");
            owner.heap.remove(place);
            owner.due = Some(self.open_bucket(owner, bucket, place, Bucket::take_into));
        }
        if let Some(open) = &mut owner.due {
            owner.opened = Some(open.place.expiration);
            open.left = owner.parked.first_share(open.place.level);
        }
        true
    }

    /// Takes the entries of a bucket into a tray, by `take`.
    #[inline]
    pub(super) fn open_bucket(
        &self,
        owner: &mut Owner<T>,
        bucket: &Bucket<T>,
        place: Place,
        take: impl FnOnce(&Bucket<T>, &Tray<Entry<T>>) -> At,
    ) -> Open<T> {
        owner.sweep.leave(Swept::Bucket(place.level, place.slot));
        let tray = owner.spare_tray();
        tray.begin(bucket_number(place.level, place.slot));
        let at = take(bucket, &tray);
        Open { place, tray, at, left: 0, began: None }
    }

    /// Opens a round that was put aside, if it is the first of its level.
    pub(super) fn open_round(&self, owner: &mut Owner<T>, place: Place) -> Option<Open<T>> {
        let tray = owner.rounds.take(place)?;
        owner.sweep.leave(Swept::Round(place));
        let at = tray.open();
        Some(Open { place, tray, at, left: 0, began: None })
    }

    /// Takes the eager cascade if its entries came out of `armed`, the first armed bucket that is
    /// due. Otherwise takes the first cascade or round that is due, if it opens no later than
    /// `armed`.
    #[cold]
    fn take_due_from_trays(
        &self,
        owner: &mut Owner<T>,
        armed: Option<Place>,
        now: Tick,
    ) -> Option<Open<T>> {
        let is_taken_from = |open: &Open<T>, place: Place| {
            let from = open.place;
            open.tray.is_wide() && (from.level, from.slot) == (place.level, place.slot)
        };
        let is_armed = |open: &mut Open<T>| armed.is_some_and(|place| is_taken_from(open, place));
        if let Some(mut open) = owner.eager.take_if(is_armed) {
            reached(Event::CascadeOvertaken);
            // It may hold entries that are filed for this opening, though it was taken for a later
            // one.
            let armed = armed.map_or(now, |place| place.expiration);
            open.place.expiration = open.place.expiration.min(armed);
            return Some(open);
        }
        let limit = armed.map_or(now, |place| place.expiration);
        let ahead = owner.eager.as_ref().map(|open| open.place);
        let candidates = [ahead, owner.rounds.opens.first()].into_iter().flatten();
        let first = candidates.min_by_key(|place| (place.expiration, Reverse(place.level)))?;
        if first.expiration > limit {
            return None;
        }
        if ahead == Some(first) {
            reached(Event::CascadeDue);
            return owner.eager.take();
        }
        reached(Event::RoundOpened);
        self.open_round(owner, first)
    }

    /// Whether a due bucket is open and not yet flushed.
    pub fn is_open(&self, owner: &Owner<T>) -> bool {
        owner.due.is_some()
    }

    /// Whether a bucket or round is due at `now`, open or not.
    pub fn is_due(&self, owner: &Owner<T>, now: Tick) -> bool {
        owner.has_open() || owner.next_opening() <= now
    }
}

// === impl Owner ===

impl<T> Owner<T> {
    /// Whether a due bucket is open or parked.
    #[inline]
    pub fn has_open(&self) -> bool {
        self.due.is_some() || !self.parked.is_empty()
    }

    /// When the first armed bucket opens, or the first that waits in a tray; [`Tick::NEVER`] if
    /// there is none. (Those that are open already, or parked, do not count.)
    #[inline]
    pub fn next_opening(&self) -> Tick {
        let armed = self.heap.first().map_or(Tick::NEVER, |place| place.expiration);
        if self.has_in_trays() { armed.min(self.next_in_trays()) } else { armed }
    }

    /// Whether an eager cascade or a round that was put aside waits in its tray for its opening.
    #[inline]
    pub(super) fn has_in_trays(&self) -> bool {
        self.eager.is_some() || !self.rounds.is_empty()
    }

    #[cold]
    fn next_in_trays(&self) -> Tick {
        let ahead = self.eager.as_ref().map(|open| open.place);
        let firsts = [ahead, self.rounds.opens.first()].into_iter().flatten();
        firsts.map(|place| place.expiration).min().unwrap_or(Tick::NEVER)
    }
}
