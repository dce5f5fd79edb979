//! The flush: opening a due bucket and deciding what becomes of each entry in it.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariants*: an entry fires only in a turn whose time has reached its deadline's tick, and
//! in the order of ticks: what a coarse bucket holds is filed by its own deadline first, also
//! when the turn is late. A slot may hold two rounds of the ring, so each entry is judged by its
//! own deadline and place.
//!
//! *Orderings*: BUCKET-ARM, CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE.

use std::ptr::NonNull;

use crate::entry::{Entry, Filed, Phase, Taken};
use crate::inbox::Walk;
use crate::time::{Place, Tick};

use super::owner::Flush;
use super::{Count, Owner, Pool, Shard};

/// Payloads that a flush collects before they are handed over.
pub const BATCH: usize = 256;

impl<T> Shard<T> {
    /// Opens the first bucket that is due at `now`: its list is the owner's from here on.
    /// `false`: none is due.
    pub fn open_due(&self, owner: &mut Owner<T>, now: Tick) -> bool {
        debug_assert!(owner.due.is_none(), "one bucket at a time");
        debug_assert!(now <= self.clock(), "the clock is stored before a list is taken");
        let armed = owner.agenda.first();
        if let Some((place, walk)) = owner.late.pop_until(armed.map(|place| place.expiration)) {
            owner.due = Some(Box::new(Flush { place, early: None, walk }));
            return true;
        }
        let Some(place) = armed.filter(|place| place.expiration <= now) else { return false };
        owner.agenda.remove(place);
        let bucket = self.wheel.bucket(place).expect("what is on the agenda exists");
        bucket.clear_queued(place.expiration);
        let empty = || Box::new(Flush { place, early: None, walk: Walk::empty() });
        let mut flush = owner.spare.take().unwrap_or_else(empty);
        flush.place = place;
        flush.early = owner.take_errand_at(place);
        // SAFETY: the owner takes, and holds what it takes by the list bit of each entry.
        unsafe { flush.walk.restart(bucket.take()) };
        owner.due = Some(flush);
        true
    }

    /// Whether a due bucket is open and not yet flushed.
    pub fn is_open(&self, owner: &Owner<T>) -> bool {
        owner.due.is_some()
    }

    /// Whether something is due at `now`, open or not.
    pub fn is_due(&self, owner: &Owner<T>, now: Tick) -> bool {
        let is_armed = owner.agenda.first().is_some_and(|place| place.expiration <= now);
        is_armed || owner.due.is_some() || !owner.late.is_empty()
    }

    /// Goes on with the open bucket, until it is flushed or `room` payloads are collected.
    /// `true`: it is flushed.
    pub fn flush(&self, owner: &mut Owner<T>, pool: &Pool<T>, room: usize) -> bool {
        let Some(mut flush) = owner.due.take() else { return true };
        while owner.batch.len() < room {
            let Some(entry) = flush.next() else { break };
            // SAFETY: the walk hands out entries that the owner holds by their list bit.
            unsafe { self.settle(owner, pool, entry, flush.place) };
        }
        let is_done = flush.is_done();
        *if is_done { &mut owner.spare } else { &mut owner.due } = Some(flush);
        is_done
    }

    /// Decides about one entry of a due bucket: fire, re-file, or let go of the dead.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit.
    #[inline]
    unsafe fn settle(
        &self,
        owner: &mut Owner<T>,
        pool: &Pool<T>,
        entry: NonNull<Entry<T>>,
        place: Place,
    ) {
        // SAFETY: the owner holds it.
        let this = unsafe { entry.as_ref() };
        // Read once: a re-filing that fails leaves the place behind that it was after.
        let filed = this.filed();
        loop {
            let word = this.word();
            let deadline = word.deadline();
            if word.phase() == Phase::Vacant {
                // SAFETY: the owner holds it; `word` is vacant.
                match unsafe { this.unlink(word) } {
                    // SAFETY: nobody kept it, so it is held here alone.
                    Some(true) => return unsafe { owner.bury(pool, entry) },
                    Some(false) => return,
                    None => continue,
                }
            }
            if deadline <= place.expiration {
                // SAFETY: the owner holds it; `word` is pending (nothing else is in a list).
                match unsafe { this.end(word, Phase::Fired) } {
                    // SAFETY: it was taken out of this entry.
                    Some(taken) => return unsafe { owner.collect(pool, entry, deadline, taken) },
                    None => continue,
                }
            }
            if filed.expiration > place.expiration {
                // Another round of this slot. (No exchange: its place is unchanged.)
                // SAFETY: the owner holds it and took it from there.
                return unsafe { self.leave(owner, entry, filed) };
            }
            let next = self.wheel.geometry().place(deadline, place.expiration);
            // SAFETY: the owner holds it; `word` is pending.
            if unsafe { this.refile(word, next) } {
                owner.tally.add(Count::Cascaded, 1);
                // SAFETY: it was just re-filed there.
                return unsafe { self.push(owner, entry, next) };
            }
        }
    }

    /// Leaves an entry of a later round where it is filed; if that is due as well, at hand.
    ///
    /// # Safety
    /// As [`Shard::push_back`].
    #[cold]
    unsafe fn leave(&self, owner: &mut Owner<T>, entry: NonNull<Entry<T>>, filed: Filed) {
        if filed.expiration <= self.clock() {
            let place = self.wheel.geometry().place_on(filed.expiration, filed.level);
            // SAFETY: passed on to the caller.
            unsafe { owner.late.add(place, entry) };
        } else {
            // SAFETY: passed on to the caller.
            unsafe { self.push_back(owner, entry, filed) };
        }
    }
}

// === impl Owner ===

impl<T> Owner<T> {
    /// Takes in a payload that fired, and its entry if no handle is left.
    ///
    /// # Safety
    /// `taken` is of this entry, which was the owner's by its list bit.
    #[inline]
    unsafe fn collect(
        &mut self,
        pool: &Pool<T>,
        entry: NonNull<Entry<T>>,
        deadline: Tick,
        taken: Taken<T>,
    ) {
        self.batch.push_back((deadline, taken.payload));
        if taken.mine {
            // SAFETY: no handle is left, so it is held here alone, and the payload is out.
            unsafe { self.stock.put(pool, entry) };
        }
    }

    /// Takes in the memory of a dead entry.
    ///
    /// # Safety
    /// The caller alone holds it, and leaves it here.
    #[inline]
    pub(super) unsafe fn bury(&mut self, pool: &Pool<T>, entry: NonNull<Entry<T>>) {
        self.tally.add(Count::Buried, 1);
        // SAFETY: passed on to the caller; a dead entry has no payload.
        unsafe { self.stock.put(pool, entry) };
    }

    /// What an errand had taken out of the bucket at `place`.
    #[inline]
    fn take_errand_at(&mut self, place: Place) -> Option<Walk<Entry<T>>> {
        let here = |slot: u32, level: u8| slot == place.slot && level == place.level;
        let errand = self.errand.take_if(|errand| here(errand.place.slot, errand.place.level))?;
        Some(errand.walk)
    }
}
