//! Sweeping: dead entries in the buckets become free memory, in place.
//!
//! A sweep walks each list in place. It unlinks a dead entry by pointing the link before it to the
//! next entry; living entries stay where they are. A sweep may pause anywhere, even inside a
//! bucket. If that bucket is opened meanwhile, the sweep goes on with the next.
//!
//! *Owner*: the shard's owner. It sweeps when nothing is due, and a part with each batch while it
//! is busy. Other threads only ask for a sweep ([`Shard::ask_for_sweep`]). A dead entry belongs to
//! its list alone, and only the owner takes entries out of lists: so nobody else changes the word
//! of a dead entry or a link that leads to one. Producers push before the first entry of a list,
//! and readers walk the lists meanwhile.
//!
//! *Invariants*: what a paused sweep knows of a list is still in it, unless the owner has opened
//! the bucket or the round; then the sweep has left it (`Sweep::leave`). The list bit of an entry
//! that was cut out is cleared before the next cut. So the entry before it tells a reader that the
//! one on which it stands was cut out (`scan`).
//!
//! *Orderings*: SWEEP, BUCKET-READ.
//!
//! *Tested by*: `loom-tests/tests/{bucket_read,shard,sweep}.rs`,
//! `tests/{suite,races}/engine/scan.rs`, `tests/alone/bounded.rs`.

use std::ptr::NonNull;

use crate::entry::{Entry, Linked, Phase};
use crate::inbox::next_of;
use crate::memory::Shared;
use crate::sync::{IS_CHECKED, Ordering, prefetch};
use crate::time::{Place, Tick};

use super::swept::{Cursor, Swept};
use super::{Owner, Shard};

/// Entries that a sweep visits before the owner probes for due buckets again.
pub(super) const CHUNK: usize = if IS_CHECKED { 1 } else { 1024 };

/// Buckets that a sweep probes into per entry that it may visit: most are empty.
const PROBES: usize = 4;

/// While the owner is busy, a sweep visits an entry with each batch for so many that were left dead
/// since it began, or a chunk if that is more.
const LEFT_PER_VISIT: u64 = 4;

impl<T> Shard<T> {
    /// Whether a sweep is under way or wanted.
    #[inline]
    pub fn may_sweep(&self, owner: &Owner<T>, shared: &Shared<T>) -> bool {
        owner.sweep.is_under_way() || self.wants_sweep() || shared.balance.is_littered(self.index)
    }

    /// Continues the sweep under way or begins one that is wanted. Visits at most `visits` entries,
    /// and probes at most `PROBES` times as many buckets. Returns `false` if no sweep is wanted.
    #[inline]
    pub fn sweep_some(&self, owner: &mut Owner<T>, shared: &Shared<T>, visits: usize) -> bool {
        !owner.closed && self.may_sweep(owner, shared) && self.sweep_on(owner, shared, visits)
    }

    /// A busy turn's share of sweeping, for each batch that it hands over. It grows with the number
    /// of entries that die meanwhile, however long the tasks of a batch take. So the dead are
    /// bounded while something is always due (`memory/balance.rs`).
    pub fn sweep_beside_work(&self, owner: &mut Owner<T>, shared: &Shared<T>) {
        let left = shared.balance.unswept(self.index) / LEFT_PER_VISIT;
        self.sweep_some(owner, shared, CHUNK.max(left as usize));
    }

    // Out of line, so that a turn with nothing to sweep does not pay for it.
    #[inline(never)]
    fn sweep_on(&self, owner: &mut Owner<T>, shared: &Shared<T>, visits: usize) -> bool {
        if !owner.sweep.is_under_way() {
            if !self.begin_sweep(shared) {
                return false;
            }
            owner.sweep.at = Some(Swept::Bucket(1, 0));
            self.look_into(owner, 1, 0);
        }
        let (mut visited, mut probes) = (0, visits.saturating_mul(PROBES));
        while visited < visits {
            if owner.sweep.live > 0 {
                // SAFETY: the list is live.
                unsafe { self.visit(owner, shared) };
                visited += 1;
            } else if probes == 0 {
                break;
            } else if self.find_next(owner) {
                probes -= 1;
            } else {
                owner.sweep.at = None;
                return true;
            }
        }
        true
    }

    /// Goes on to the next bucket or round. Returns `false` if there is none.
    fn find_next(&self, owner: &mut Owner<T>) -> bool {
        if let Some(Swept::Bucket(level, slot)) = owner.sweep.at {
            if self.look_into(owner, level, slot + 1) {
                return true;
            }
            // Entries that are put aside from now on were visited in their buckets.
            owner.sweep.rounds.extend(owner.agenda.all_aside().map(|(place, _)| place));
        }
        let Owner { sweep, agenda, .. } = owner;
        let Some(place) = sweep.rounds.pop() else { return false };
        let tray = agenda.aside(place);
        sweep.enter(Swept::Round(place), tray.into_iter().flat_map(|tray| tray.heads()));
        true
    }

    /// Goes on to the first existing bucket from `level` and `slot` on. Returns `false` if there is
    /// none.
    fn look_into(&self, owner: &mut Owner<T>, level: u8, slot: u32) -> bool {
        let mut from_there = self.wheel.existing_from(level, slot, self.guard(owner));
        let Some((level, slot, bucket)) = from_there.next() else { return false };
        let heads = bucket.heads();
        drop(from_there);
        owner.sweep.enter(Swept::Bucket(level, slot), heads);
        true
    }

    /// Visits one entry, and unlinks it if it is dead.
    ///
    /// # Safety
    /// The sweep has a list with entries left.
    unsafe fn visit(&self, owner: &mut Owner<T>, shared: &Shared<T>) {
        let Cursor { number, before, next: at } = owner.sweep.lists[owner.sweep.current];
        let entry = NonNull::new(at).expect("a live list has an entry");
        // SAFETY: it is in its list: the owner has not opened that since it was found there.
        let this = unsafe { entry.as_ref() };
        let next = next_of(this);
        prefetch(next.addr());
        let word = this.word();
        debug_assert!(word.in_list(), "{word:?}");
        let is_dead = word.phase() == Phase::Vacant && !word.is_held();
        if is_dead && self.lead_past(owner, (number, before), at, next) {
            // SAFETY: nobody keeps it, and it is in no list any more.
            unsafe { this.end_dead() };
            // SAFETY: so it is held here alone.
            unsafe { owner.bury(shared, entry) };
        } else {
            owner.sweep.lists[owner.sweep.current].before = at;
        }
        owner.sweep.lists[owner.sweep.current].next = next;
        owner.sweep.step(next.is_null());
    }

    /// Points the link before an entry to the next one. Returns `false` if the entry was the first
    /// of its list and others were pushed before it since.
    fn lead_past(
        &self,
        owner: &Owner<T>,
        (number, before): (usize, *mut Entry<T>),
        entry: *mut Entry<T>,
        next: *mut Entry<T>,
    ) -> bool {
        // SAFETY: it is in the list, as the entry that is visited.
        if let Some(before) = unsafe { before.as_ref() } {
            // ORDER(BUCKET-READ): Release - as for every link. (A reader of the entry before sees
            // the next one as it was pushed in any case: it was pushed earlier.)
            before.next().store(next, Ordering::Release);
            if matches!(owner.sweep.at, Some(Swept::Round(_))) {
                self.trays.note_cut();
            }
            return true;
        }
        match owner.sweep.at.expect("a sweep is under way") {
            Swept::Round(place) => owner
                .agenda
                .aside(place)
                // SAFETY: the entry is in there, and its link was just read.
                .is_some_and(|tray| unsafe { tray.drop_first(number, entry, next) }),
            Swept::Bucket(level, slot) => {
                let bucket = self.wheel.get(Place { level, slot, expiration: Tick::ZERO });
                // SAFETY: the entry is in there, and its link was just read.
                bucket.is_some_and(|bucket| unsafe { bucket.drop_first(number, entry, next) })
            }
        }
    }
}
