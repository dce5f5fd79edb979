//! Sweeping: dead entries in the buckets become free memory, in place.
//!
//! A sweep walks each list in place. It unlinks a dead entry by pointing the link before it to the
//! next entry; living entries stay where they are. A sweep may pause anywhere, even inside a
//! bucket. If that bucket is opened meanwhile, the sweep goes on with the next.
//!
//! *Owner*: any thread sweeps, one at a time: it has the sweep's lock, for which nobody waits. The
//! reaper sweeps when nothing is due, and a chunk with each batch while it is busy. A thread that
//! lets go of seats while too many are dead sweeps a little itself, because the reaper may be
//! inside a task for any length of time. If a thread is held up while it sweeps, nobody else sweeps
//! that shard until it goes on. But the owner opens buckets meanwhile, also the one that is being
//! swept (`swept`), so no timer waits. A thread that finds the lock taken leaves, and the one that
//! has it rings when it is done, if anything is left to sweep.
//!
//! A thread that is not the owner leaves the first entry of each list. The owner pushes on lists of
//! its own without a CAS. Of the others it shows the first entry to readers before it takes the
//! list (`Stack::take`): if the entry were freed in between, a later reader would still be shown
//! it.
//!
//! *Invariant*: the list bit of an entry that was cut out is cleared before the next cut. So the
//! entry before it tells a reader that the one on which it stands was cut out (`scan`).
//!
//! *Orderings*: CUT, SWEEP, BUCKET-READ, SEAT, RELEASE.
//!
//! *Tested by*: `loom-tests/tests/{bucket_read,cut,shard,suspended,sweep}.rs`,
//! `tests/{suite,races}/engine/scan.rs`.

use std::array;
use std::mem;
use std::ptr::{self, NonNull};

use crate::entry::{Entry, Linked, Phase, Word, read};
use crate::inbox::{CHAINS, Tray};
use crate::memory::{Count, Counters, Outbox, SEATS, Shared};
use crate::sync::events::{Event, reached};
use crate::sync::{Arc, IS_CHECKED, Ordering, fence, prefetch};
use crate::time::{Place, Tick};

use super::swept::Way;
use super::{Owner, Shard};

/// Buckets that a sweep looks into per entry that it may visit: most are empty.
pub const LOOKS: usize = 4;

/// Entries that a thread visits each time that it lets go of seats while too many are dead: twelve
/// for each seat is the fewest that keep the dead below the living (`memory/balance.rs`).
pub const HELP: usize = if IS_CHECKED { 2 } else { 24 * SEATS };

/// A sweep under way, or the memory of the last one for the next (`Swept` tells which).
pub(super) struct Sweep<T> {
    /// The bucket that is being swept, or the last one.
    bucket: (u8, u32),
    /// The tray of the round that is being swept.
    tray: Option<Arc<Tray<Entry<T>>>>,
    /// Rounds that are swept after this one, and whether all buckets are.
    rounds: Vec<Arc<Tray<Entry<T>>>>,
    is_in_rounds: bool,
    /// The address of the bucket or tray, for `Swept`.
    at: usize,
    lists: [Cursor<T>; CHAINS],
    /// The index of the list that is visited next.
    current: usize,
    /// How many lists have entries left; they come first.
    live: usize,
}

/// Who sweeps, and where the memory of dead entries goes.
struct Sweeper<'a, T> {
    outbox: &'a mut Outbox<T>,
    counters: &'a Counters,
    is_owner: bool,
}

/// A sweep's position in a list.
struct Cursor<T> {
    /// Which list of its bucket or tray it is.
    number: usize,
    /// The entry before `next`, which stays in the list; null if there is none.
    before: *mut Entry<T>,
    /// The entry that is visited next.
    next: *mut Entry<T>,
}

// SAFETY: entries are shared between threads; what it points to is looked at only while no entry of
// those lists has left them.
unsafe impl<T: Send> Send for Sweep<T> {}

// === impl Sweep ===

impl<T> Sweep<T> {
    /// No sweep is under way.
    pub(super) fn none() -> Sweep<T> {
        let list = |_| Cursor { number: 0, before: ptr::null_mut(), next: ptr::null_mut() };
        Sweep {
            bucket: (1, 0),
            tray: None,
            rounds: Vec::new(),
            is_in_rounds: false,
            at: 0,
            lists: array::from_fn(list),
            current: 0,
            live: 0,
        }
    }

    /// Begins with lists, each given by its number and its first entry.
    fn begin_with(&mut self, firsts: impl Iterator<Item = (usize, *mut Entry<T>)>) {
        (self.current, self.live) = (0, 0);
        for (number, next) in firsts.filter(|(_, first)| !first.is_null()) {
            prefetch(next.addr());
            self.lists[self.live] = Cursor { number, before: ptr::null_mut(), next };
            self.live += 1;
        }
    }

    /// Goes on to the next list. The last live list replaces one that is done.
    fn step(&mut self, is_done: bool) {
        if is_done {
            self.live -= 1;
            self.lists.swap(self.current, self.live);
        }
        self.current = if self.current + 1 < self.live { self.current + 1 } else { 0 };
    }
}

impl<T> Shard<T> {
    /// Sweeps a little, if a sweep is wanted and no other thread sweeps. Returns whether it did.
    /// For threads that let go of seats.
    pub fn help_sweep(&self, shared: &Shared<T>) -> bool {
        let Ok(mut sweep) = self.sweeping.try_lock() else {
            reached(Event::SweepBusy);
            return false;
        };
        // The owner may open what is being swept, and let go of entries there.
        let reader = read();
        let counters = shared.all_counters.claim();
        let mut outbox = Outbox::new(shared, self.index);
        let sweeper = Sweeper { outbox: &mut outbox, counters: &counters, is_owner: false };
        let has_helped = self.sweep_on(&mut sweep, shared, sweeper, HELP);
        if has_helped {
            reached(Event::SweepHelped);
        }
        outbox.end(shared);
        shared.end_counting(&counters, self.index);
        drop(sweep);
        drop(reader);
        // ORDER(SWEEP): SeqCst - pairs with the fence of a ring: a thread that asked before this is
        // seen here, or its owner finds the lock free.
        fence(Ordering::SeqCst);
        if self.may_sweep(shared) {
            // Perhaps the owner has looked meanwhile, and found the lock taken.
            self.doorbell.ask(self.group_index);
            self.doorbell.ring();
        }
        has_helped
    }

    /// Whether a sweep is under way, perhaps paused.
    pub fn is_being_swept(&self) -> bool {
        self.swept.is_under_way()
    }

    /// Continues the sweep under way or begins one that is wanted. Visits at most `visits` entries,
    /// and looks into at most `LOOKS` times as many buckets. Returns `false` if no sweep is wanted,
    /// or another thread sweeps, which rings if it leaves anything.
    #[inline]
    pub fn sweep_some(&self, owner: &mut Owner<T>, shared: &Shared<T>, visits: usize) -> bool {
        !owner.closed && self.may_sweep(shared) && self.sweep_as_owner(owner, shared, visits)
    }

    /// Whether a sweep is under way or wanted.
    #[inline]
    pub fn may_sweep(&self, shared: &Shared<T>) -> bool {
        self.swept.is_under_way() || self.wants_sweep() || shared.is_littered(self.index)
    }

    fn sweep_as_owner(&self, owner: &mut Owner<T>, shared: &Shared<T>, visits: usize) -> bool {
        let Ok(mut sweep) = self.sweeping.try_lock() else {
            reached(Event::SweepBusy);
            return false;
        };
        let Owner { outbox, counters, .. } = owner;
        self.sweep_on(&mut sweep, shared, Sweeper { outbox, counters, is_owner: true }, visits)
    }

    /// The same with the sweep's lock. The caller is the owner, or a reader.
    fn sweep_on(
        &self,
        sweep: &mut Sweep<T>,
        shared: &Shared<T>,
        mut sweeper: Sweeper<'_, T>,
        visits: usize,
    ) -> bool {
        if !self.swept.is_under_way() {
            if !self.begin_sweep(shared) {
                return false;
            }
            reached(Event::SweepBegun);
            (sweep.tray, sweep.is_in_rounds, sweep.live) = (None, false, 0);
            sweep.at = 0;
            self.look_into(sweep, 1, 0);
        }
        let (mut visited, mut looks) = (0, visits.saturating_mul(LOOKS));
        let mut way = self.swept.resume(sweep.at);
        let mut is_all = false;
        while visited < visits && !is_all && way != Way::Pause {
            if way == Way::Out && sweep.live > 0 {
                reached(Event::SweepLeft);
                sweep.live = 0;
            }
            if sweep.live > 0 {
                // SAFETY: the lists had not been opened when the caller came, as owner or reader.
                unsafe { self.visit(shared, &mut sweeper, sweep) };
                visited += 1;
            } else if looks > 0 {
                looks -= 1;
                is_all = !self.find_next(sweep);
            } else {
                break;
            }
            way = self.swept.way(sweep.at);
        }
        if !is_all {
            reached(Event::SweepPaused);
            return true;
        }
        self.swept.enter(0);
        if self.wants_sweep() {
            reached(Event::SweepAgain);
        }
        true
    }

    /// Goes on to the next bucket or round. Returns `false` if there is none.
    fn find_next(&self, sweep: &mut Sweep<T>) -> bool {
        let (level, slot) = sweep.bucket;
        if !sweep.is_in_rounds && self.look_into(sweep, level, slot + 1) {
            return true;
        }
        if !mem::replace(&mut sweep.is_in_rounds, true) {
            // Entries that are put aside from now on were visited in their buckets.
            let given = self.trays.rounds().filter(|tray| tray.is_given());
            sweep.rounds.extend(given.cloned());
        }
        let Some(tray) = sweep.rounds.pop() else { return false };
        sweep.at = tray.address();
        self.swept.enter(sweep.at);
        // Once it is open, the owner goes through it.
        let is_closed = tray.is_given();
        reached(if is_closed { Event::SweepRound } else { Event::SweepRoundGone });
        let firsts = tray.chains().map(|(number, first)| (number, first.as_ptr()));
        sweep.begin_with(firsts.filter(|_| is_closed));
        sweep.tray = Some(tray);
        true
    }

    /// Begins with the first existing bucket from `level` and `slot` on. Returns `false` if there
    /// is none.
    fn look_into(&self, sweep: &mut Sweep<T>, level: u8, slot: u32) -> bool {
        let Some((level, slot, bucket)) = self.wheel.existing_from(level, slot).next() else {
            return false;
        };
        (sweep.bucket, sweep.at) = ((level, slot), bucket.address());
        self.swept.enter(sweep.at);
        sweep.begin_with(bucket.firsts().enumerate());
        true
    }

    /// Visits one entry, and unlinks it if it is dead.
    ///
    /// # Safety
    /// The sweep has an entry left. The caller has the sweep's lock, and its lists were not opened
    /// before it was a reader, or the owner.
    unsafe fn visit(&self, shared: &Shared<T>, sweeper: &mut Sweeper<'_, T>, sweep: &mut Sweep<T>) {
        let Cursor { before, next: at, .. } = sweep.lists[sweep.current];
        let entry = NonNull::new(at).expect("a live list has an entry");
        // SAFETY: it was in the list, or in one to which the caller was led, as a reader is.
        let this = unsafe { entry.as_ref() };
        // ORDER(BUCKET-READ): Acquire - as a reader's.
        let next = this.next().load(Ordering::Acquire);
        prefetch(next.addr());
        let word = this.word();
        let is_dead = word.phase() == Phase::Vacant && word.in_list() && !word.is_held();
        let may_go = !before.is_null() || sweeper.is_owner;
        // SAFETY: as above; the word was read from it.
        let is_gone =
            is_dead && may_go && unsafe { self.unlink(shared, sweeper, sweep, (entry, word)) };
        if !is_gone {
            sweep.lists[sweep.current].before = at;
        }
        sweep.lists[sweep.current].next = next;
        sweep.step(next.is_null());
    }

    /// Unlinks a dead entry. Returns `false` if it may be in its list still.
    ///
    /// # Safety
    /// As for `visit`, which visits the entry; `word` was read from it.
    unsafe fn unlink(
        &self,
        shared: &Shared<T>,
        sweeper: &mut Sweeper<'_, T>,
        sweep: &Sweep<T>,
        (entry, word): (NonNull<Entry<T>>, Word),
    ) -> bool {
        // SAFETY: passed on to the caller.
        let this = unsafe { entry.as_ref() };
        // SAFETY: as above.
        if !unsafe { this.keep_dead(word) } {
            return false;
        }
        // SAFETY: as above; it is kept.
        let is_gone = unsafe { self.lead_past(sweep, entry) };
        if is_gone {
            // SAFETY: it is kept here, and in no list.
            unsafe { this.end_kept() };
        }
        // SAFETY: it is kept here.
        let is_mine = is_gone || unsafe { Entry::let_go(entry) };
        if is_mine {
            // (An entry that died in another shard meanwhile is counted in this one. The sum of all
            // shards is right.)
            sweeper.counters.add(Count::Buried, 1);
            // SAFETY: no list and nobody else has it; a dead entry has no payload.
            unsafe { sweeper.outbox.put(shared, entry) };
        } else {
            reached(Event::SweepPassed);
        }
        is_gone
    }

    /// Points the link before the entry that is visited to the next one. Returns `false` if others
    /// were pushed before the entry since, or its lists were opened.
    ///
    /// # Safety
    /// As for `visit`, which visits the entry; the caller keeps it.
    unsafe fn lead_past(&self, sweep: &Sweep<T>, entry: NonNull<Entry<T>>) -> bool {
        let Cursor { number, before, .. } = sweep.lists[sweep.current];
        // ORDER(BUCKET-READ): Acquire - as a reader's. Nobody pushes what is kept.
        // SAFETY: passed on to the caller.
        let next = unsafe { entry.as_ref() }.next().load(Ordering::Acquire);
        if !before.is_null() {
            // SAFETY: passed on to the caller; it was read there that they follow each other.
            let is_cut = unsafe { self.swept.cut(sweep.at, [before, entry.as_ptr(), next]) };
            if is_cut && sweep.tray.is_some() {
                self.swept.note_cut_in_round();
            }
            return is_cut;
        }
        match &sweep.tray {
            // SAFETY: the entry is in there, and its link was just read.
            Some(tray) => unsafe { tray.drop_first(number, entry.as_ptr(), next) },
            None => {
                let (level, slot) = sweep.bucket;
                let place = Place { level, slot, expiration: Tick::ZERO };
                let bucket = self.wheel.get(place);
                // SAFETY: as above.
                bucket.is_some_and(|it| unsafe { it.drop_first(number, entry.as_ptr(), next) })
            }
        }
    }
}
