//! The flush: goes through the entries of an open bucket, and decides about each.
//!
//! | the entry is | what happens | CAS | race |
//! |---|---|---|---|
//! | filed for another round | it is put aside until that round opens (`agenda`) | none | |
//! | vacant | its list lets go of it: it is free, if nobody keeps the seat | `unlink` | SEAT |
//! | due | it ends, and its payload joins the batch | `end` | CANCEL-FIRE |
//! | due later | it is filed again, mostly on a lower level | `refile` | RESET-FIRE |
//!
//! If the CAS fails, the entry has changed, and is decided about again. An eager cascade is a flush
//! in which nothing is due, and the end of a shard is one in which everything is.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariants*: an entry fires only in a turn whose time has reached its deadline's tick, and
//! entries fire in the order of ticks: an entry of a coarse bucket is first filed by its own
//! deadline, even if the turn is late.
//!
//! *Orderings*: CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE.

use std::ptr::NonNull;

use crate::entry::{Entry, Filed, Phase, Word};
use crate::inbox::{At, Tray};
use crate::memory::{Count, Shared};
use crate::time::{Place, Tick};

use super::agenda::Open;
use super::{Owner, Shard};

/// Payloads that a flush collects before they are handed over at most, and their bytes, unless one
/// has more.
pub const BATCH: usize = 256;
const BATCH_BYTES: usize = 256 << 10;

/// Payloads of this type that a flush collects before they are handed over.
pub const fn batch<T>() -> usize {
    match BATCH_BYTES / size_of::<(Tick, T)>() {
        0 => 1,
        BATCH.. => BATCH,
        fit => fit,
    }
}

/// Which timers of an open bucket end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Those that are due.
    Due,
    /// None: the bucket is cascaded eagerly.
    None,
    /// All: the shard is closed.
    All,
}

// === impl Ends ===

impl Ends {
    /// Whether a timer of this deadline ends, in a bucket whose timers fire up to `due`.
    #[inline(always)]
    fn has(self, deadline: Tick, due: Tick) -> bool {
        self == Ends::All || self == Ends::Due && deadline <= due
    }

    #[inline(always)]
    fn phase(self) -> Phase {
        if self == Ends::All { Phase::Stopped } else { Phase::Fired }
    }
}

impl<T> Shard<T> {
    /// Continues with the open bucket until it is flushed, `room` payloads are collected, or the
    /// owner's budget is spent. Returns `true` if it is flushed.
    pub fn flush(&self, owner: &mut Owner<T>, shared: &Shared<T>, room: usize) -> bool {
        let Some(mut open) = owner.agenda.due.take() else { return true };
        let mut visited = 0;
        while owner.batch.len() < room && visited < owner.budget && !open.at.is_done() {
            // Each entry adds one payload at most, so the batch need not be looked at for each.
            let most = (room - owner.batch.len()).min(owner.budget - visited);
            visited += self.settle_some(owner, shared, &mut open, Ends::Due, most);
        }
        owner.budget -= visited;
        open.visited = open.visited.saturating_add(visited);
        if !open.was_parked {
            owner.agenda.count_others(visited);
        }
        let is_done = open.at.is_done();
        if is_done {
            owner.put_away(open);
        } else {
            owner.agenda.due = Some(open);
        }
        is_done
    }

    /// Goes through at most `most` entries of an open bucket. Returns how many those were.
    // Each caller knows which timers end, and pays for its own case alone.
    #[inline(always)]
    pub(super) fn settle_some(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        open: &mut Open<T>,
        ends: Ends,
        most: usize,
    ) -> usize {
        let (tray, mut at) = (&*open.tray, open.at);
        // What is filed again is seen from there.
        let from = Place { expiration: open.fires_up_to, ..open.place };
        let mut left = most;
        while left > 0 {
            let Some(entry) = tray.peek(&at) else { break };
            left -= 1;
            owner.visited();
            // SAFETY: the owner holds each entry in a tray, by its list bit.
            let this = unsafe { entry.as_ref() };
            let filed = this.filed();
            let is_of_another_round = match ends {
                Ends::Due => filed.expiration > from.expiration,
                Ends::None => filed.expiration != from.expiration,
                Ends::All => false,
            };
            if is_of_another_round {
                // SAFETY: the tray showed it, and the owner holds it.
                at = unsafe { self.put_aside(owner, (tray, at), entry, filed) };
                continue;
            }
            let word = this.word();
            let is_due = ends.has(word.deadline(), from.expiration);
            if !is_due {
                // SAFETY: the tray showed it.
                unsafe { tray.set_moving(entry) };
            }
            // SAFETY: the tray showed it.
            unsafe { tray.pass(&mut at, entry) };
            let it = (entry, word);
            // SAFETY: the owner holds it, and `word` was read from it.
            unsafe {
                // In two calls, so that a timer which fires does not pay for one that moves.
                match is_due {
                    true => self.settle(owner, shared, it, ends, from, None),
                    false => self.settle(owner, shared, it, ends, from, Some(tray)),
                }
            }
        }
        open.at = at;
        most - left
    }

    /// Decides about one entry that came out of a bucket: see the header. A timer that does not end
    /// is filed again, seen from `from`.
    ///
    /// `moving` is the tray that shows the entry as moving. It shows that until the list has let go
    /// of the entry, or the entry is in its new bucket. A timer that is due is not shown: it moves
    /// only if it was reset a moment ago.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit; `word` was read from it.
    // Each caller knows the phase and the tray, and pays for its own case alone.
    #[inline(always)]
    unsafe fn settle(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        (entry, mut word): (NonNull<Entry<T>>, Word),
        ends: Ends,
        from: Place,
        moving: Option<&Tray<Entry<T>>>,
    ) {
        let moved = || moving.into_iter().for_each(Tray::set_moved);
        // SAFETY: the owner holds it.
        let this = unsafe { entry.as_ref() };
        loop {
            let deadline = word.deadline();
            if word.phase() == Phase::Vacant {
                moved();
                // SAFETY: the owner holds it; `word` is vacant.
                match unsafe { Entry::unlink(entry, word) } {
                    // SAFETY: nobody kept it, so it is held here alone.
                    Some(true) => return unsafe { owner.bury(shared, entry) },
                    Some(false) => return,
                    None => {}
                }
            } else if ends.has(deadline, from.expiration) {
                let take = |payload| owner.batch.push((deadline, payload));
                // SAFETY: the owner holds it; `word` is pending (nothing else is in a list). A push
                // does not panic: it aborts if there is no memory.
                if let Some(mine) = unsafe { Entry::end(entry, word, ends.phase(), moved, take) } {
                    // SAFETY: the list has let go of it, and its payload is out.
                    return unsafe { owner.has_ended(shared, entry, mine) };
                }
            } else {
                let next = self.place_from(shared, deadline, from.expiration, from.level);
                // SAFETY: the owner holds it; `word` is pending.
                if unsafe { this.refile(word, next) } {
                    owner.counters.add(Count::Cascaded, 1);
                    // SAFETY: it was just re-filed there.
                    unsafe { self.push(owner, entry, next) };
                    return moved();
                }
            }
            word = this.word();
        }
    }

    /// Passes an entry that is filed for another round, and puts it aside until that round opens,
    /// also if it is vacant or was reset. No CAS is needed, because the entry's place is unchanged.
    /// Returns the owner's new position in the tray.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit, and the tray shows it; it is filed at `filed`.
    #[cold]
    unsafe fn put_aside(
        &self,
        owner: &mut Owner<T>,
        (tray, mut at): (&Tray<Entry<T>>, At),
        entry: NonNull<Entry<T>>,
        filed: Filed,
    ) -> At {
        let place = self.wheel.geometry().place_on(filed.expiration, filed.level);
        // SAFETY: the tray showed it.
        unsafe { tray.set_moving(entry) };
        // SAFETY: the tray showed it.
        unsafe { tray.pass(&mut at, entry) };
        // SAFETY: the owner holds it, and it is filed there.
        unsafe { owner.put_aside(&self.trays, place, entry) };
        tray.set_moved();
        at
    }
}

// === impl Owner ===

impl<T> Owner<T> {
    /// Adds an entry whose timer has ended to the outbox if it is the owner's (`mine`), and counts
    /// it if a handle is left.
    ///
    /// # Safety
    /// The payload is out, and `mine` is what [`Entry::end`] has returned.
    #[inline(always)]
    unsafe fn has_ended(&mut self, shared: &Shared<T>, entry: NonNull<Entry<T>>, mine: bool) {
        if mine {
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
