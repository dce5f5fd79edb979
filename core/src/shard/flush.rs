//! The flush: opens a due bucket and decides about each entry in it.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariants*: an entry fires only in a turn whose time has reached its deadline's tick, and
//! entries fire in the order of ticks: an entry of a coarse bucket is first filed by its own
//! deadline, even if the turn is late. A slot may hold two rounds of the ring, so each entry is
//! judged by its own deadline and place.
//!
//! *Orderings*: BUCKET-ARM, CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE.

use std::cmp::Reverse;
use std::ptr::NonNull;

use crate::entry::{Entry, Filed, Phase, Taken, Word};
use crate::inbox::{At, Tray};
use crate::memory::{Count, Shared};
use crate::sync::events::{Event, reached};
use crate::sync::{Ordering, fence};
use crate::time::{Place, Tick};

use super::owner::Open;
use super::rounds::bucket_number;
use super::{Bucket, Owner, Shard};

/// Payloads that a flush collects before they are handed over.
pub const BATCH: usize = 256;

impl<T> Shard<T> {
    /// Opens the first bucket or round that is due at `now`: its entries are then in a tray. Goes
    /// on with a parked one if it is its turn, or if no other is due. Returns `false` if none is.
    pub fn open_due(&self, owner: &mut Owner<T>, shared: &Shared<T>, now: Tick) -> bool {
        debug_assert!(owner.due.is_none(), "one bucket at a time");
        debug_assert!(now <= self.clock(), "the clock is stored before a list is taken");
        if owner.parked.is_its_turn() {
            return self.go_on(owner, now);
        }
        let armed = owner.heap.first().filter(|place| place.expiration <= now);
        if owner.has_in_trays() {
            owner.due = self.take_due_from_trays(owner, shared, armed, now);
        }
        if owner.due.is_none() {
            let Some(place) = armed else {
                return !owner.parked.is_empty() && self.go_on(owner, now);
            };
            let bucket = self.wheel.bucket(place).expect("what is on the heap exists");
            owner.cross_off(bucket, place);
            owner.due = Some(self.open_bucket(owner, shared, bucket, place, Bucket::take_into));
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
        shared: &Shared<T>,
        bucket: &Bucket<T>,
        place: Place,
        take: impl FnOnce(&Bucket<T>, &Tray<Entry<T>>) -> At,
    ) -> Open<T> {
        let tray = owner.spare_tray();
        tray.begin(bucket_number(place.level, place.slot));
        let at = take(bucket, &tray);
        if let Some(dead) = self.swept.open(bucket.address()) {
            self.end_cut(owner, shared, dead, place);
        }
        Open { place, tray, at, left: 0, began: None }
    }

    /// Takes a round that was put aside.
    pub(super) fn open_round(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        place: Place,
    ) -> Option<Open<T>> {
        let tray = owner.rounds.take(place)?;
        let at = tray.open();
        // ORDER(CUT): SeqCst - pairs with the fence in `Swept::enter`: the sweep finds the round
        // open, or the owner finds the sweep in it.
        fence(Ordering::SeqCst);
        if let Some(dead) = self.swept.open(tray.address()) {
            self.end_cut(owner, shared, dead, place);
        }
        Some(Open { place, tray, at, left: 0, began: None })
    }

    /// The list lets go of a dead entry that was just cut out of it.
    #[cold]
    fn end_cut(&self, owner: &mut Owner<T>, shared: &Shared<T>, dead: *mut Entry<T>, at: Place) {
        reached(Event::SweepCutEnded);
        let entry = NonNull::new(dead).expect("an entry was cut out");
        // SAFETY: the owner holds it, by its list bit.
        let it = (entry, unsafe { entry.as_ref() }.word());
        // SAFETY: as above, and the word was read from it. A thread that sweeps keeps it, or has
        // let go: it is vacant.
        unsafe { self.settle(owner, shared, it, at, None, None) };
    }

    /// Takes the eager cascade if it came out of `armed`, the first due bucket; otherwise takes the
    /// first cascade or round in a tray that is due and opens no later than `armed`.
    #[cold]
    fn take_due_from_trays(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
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
        self.open_round(owner, shared, first)
    }

    /// Whether a due bucket is open and not yet flushed.
    pub fn is_open(&self, owner: &Owner<T>) -> bool {
        owner.due.is_some()
    }

    /// Whether a bucket or round is due at `now`, open or not.
    pub fn is_due(&self, owner: &Owner<T>, now: Tick) -> bool {
        owner.has_open() || owner.next_opening() <= now
    }

    /// Continues with the open bucket until it is flushed, `room` payloads are collected, or as
    /// many entries were looked at as the owner may. Returns `true` if it is flushed.
    pub fn flush(&self, owner: &mut Owner<T>, shared: &Shared<T>, room: usize) -> bool {
        let Some(mut open) = owner.due.take() else { return true };
        let mut looked = 0;
        while owner.batch.len() < room && looked < owner.looks && !open.at.is_done() {
            // Each entry adds one payload at most, so the batch need not be looked at for each.
            let most = (room - owner.batch.len()).min(owner.looks - looked);
            looked += self.flush_some(owner, shared, &mut open, most);
        }
        owner.looks -= looked;
        open.left = open.left.saturating_sub(looked);
        if open.began.is_none() {
            owner.parked.looked_at_others(looked);
        }
        let is_done = open.at.is_done();
        if is_done {
            owner.put_away(open);
        } else {
            reached(Event::FlushPaused);
            shared.note_crowd(open.began.unwrap_or(open.place.expiration));
            owner.due = Some(open);
        }
        is_done
    }

    /// Goes through at most `most` entries of an open bucket. Returns how many there were.
    #[inline]
    fn flush_some(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        open: &mut Open<T>,
        most: usize,
    ) -> usize {
        let (tray, mut at, place) = (&*open.tray, open.at, open.place);
        let mut left = most;
        while left > 0 {
            let Some(entry) = tray.peek(&at) else { break };
            left -= 1;
            owner.visited();
            // SAFETY: the owner holds each entry in a tray, by its list bit.
            let this = unsafe { entry.as_ref() };
            let filed = this.filed();
            if filed.expiration > place.expiration {
                // SAFETY: the tray showed it, and the owner holds it.
                at = unsafe { self.put_aside(owner, (tray, at), entry, filed) };
                continue;
            }
            let word = this.word();
            let is_due = word.deadline() <= place.expiration;
            if !is_due {
                tray.set_moving(entry.as_ptr());
            }
            // SAFETY: the tray showed it.
            unsafe { tray.pass(&mut at, entry) };
            let (it, fires) = ((entry, word), Some(Phase::Fired));
            // SAFETY: the owner holds it, and `word` was read from it.
            unsafe {
                match is_due {
                    true => self.settle(owner, shared, it, place, fires, None),
                    false => self.settle(owner, shared, it, place, fires, Some(tray)),
                }
            }
        }
        open.at = at;
        most - left
    }

    /// Decides about one entry of an open bucket: unlinks it if vacant, ends its timer, or re-files
    /// it as seen from `place`. `end`: a timer that is due by then fires, each one is stopped, or
    /// none ends. The entry is shown as moving in the tray `moving`, if there is one, until the
    /// list lets go of it, or it was pushed to its new bucket. (An entry that is not shown as
    /// moving is re-filed only if it was reset just now.)
    ///
    /// # Safety
    /// The owner holds the entry by its list bit; `word` was read from it.
    // Each caller knows the phase and the tray, and pays for its own case alone.
    #[inline(always)]
    pub(super) unsafe fn settle(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        (entry, mut word): (NonNull<Entry<T>>, Word),
        place: Place,
        end: Option<Phase>,
        moving: Option<&Tray<Entry<T>>>,
    ) {
        let moved = || moving.into_iter().for_each(Tray::set_moved);
        let ends = |deadline| match end? {
            Phase::Fired if deadline > place.expiration => None,
            end => Some(end),
        };
        // SAFETY: the owner holds it.
        let this = unsafe { entry.as_ref() };
        loop {
            let deadline = word.deadline();
            if word.phase() == Phase::Vacant {
                moved();
                // SAFETY: the owner holds it; `word` is vacant.
                match unsafe { this.unlink(word) } {
                    // SAFETY: nobody kept it, so it is held here alone.
                    Some(true) => return unsafe { owner.bury(shared, entry) },
                    Some(false) => return reached(Event::SeatUnlinked),
                    None => reached(Event::UnlinkLost),
                }
            } else if let Some(end) = ends(deadline) {
                // SAFETY: the owner holds it; `word` is pending (nothing else is in a list).
                if let Some(taken) = unsafe { this.end(word, end, moved) } {
                    // SAFETY: it was taken out of this entry.
                    return unsafe { owner.add_to_batch(shared, entry, deadline, taken) };
                }
                reached(Event::EndLost);
            } else {
                let next = self.place_from(shared, deadline, place.expiration, place.level);
                // SAFETY: the owner holds it; `word` is pending.
                if unsafe { this.refile(word, next) } {
                    owner.counters.add(Count::Cascaded, 1);
                    // SAFETY: it was just re-filed there.
                    unsafe { self.push(owner, entry, next) };
                    return moved();
                }
                reached(Event::RefileLost);
            }
            word = this.word();
        }
    }

    /// Passes an entry of another round of the slot, and puts it aside until that round opens,
    /// whatever becomes of it until then. That needs no CAS, because its place is unchanged.
    /// Returns the owner's new position in the tray.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit, and the tray shows it; it is filed at `filed`.
    #[cold]
    pub(super) unsafe fn put_aside(
        &self,
        owner: &mut Owner<T>,
        (tray, mut at): (&Tray<Entry<T>>, At),
        entry: NonNull<Entry<T>>,
        filed: Filed,
    ) -> At {
        reached(Event::PutAside);
        let place = self.wheel.geometry().place_on(filed.expiration, filed.level);
        tray.set_moving(entry.as_ptr());
        // SAFETY: the tray showed it.
        unsafe { tray.pass(&mut at, entry) };
        // SAFETY: the owner holds it, and it is filed there.
        unsafe { owner.rounds.add(&self.trays, place, entry) };
        tray.set_moved();
        at
    }
}

// === impl Owner ===

impl<T> Owner<T> {
    /// Whether a due bucket is open or parked.
    #[inline]
    pub fn has_open(&self) -> bool {
        self.due.is_some() || !self.parked.is_empty()
    }

    /// Adds a fired payload to the batch and, if no handle is left, its entry to the outbox.
    ///
    /// # Safety
    /// `taken` came out of this entry, which the owner held by its list bit.
    #[inline(always)]
    unsafe fn add_to_batch(
        &mut self,
        shared: &Shared<T>,
        entry: NonNull<Entry<T>>,
        deadline: Tick,
        taken: Taken<T>,
    ) {
        self.batch.push((deadline, taken.payload));
        if taken.mine {
            // SAFETY: no handle is left, so it is held here alone, and the payload is out.
            unsafe { self.outbox.put(shared, entry) };
        } else {
            self.held += 1;
        }
    }

    /// Adds the memory of a dead entry to the outbox.
    ///
    /// # Safety
    /// The caller alone holds it, and gives it up.
    #[inline]
    pub(super) unsafe fn bury(&mut self, shared: &Shared<T>, entry: NonNull<Entry<T>>) {
        self.counters.add(Count::Buried, 1);
        // SAFETY: passed on to the caller; a dead entry has no payload.
        unsafe { self.outbox.put(shared, entry) };
    }
}
