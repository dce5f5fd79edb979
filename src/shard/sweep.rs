//! Sweeping: dead entries in the buckets become free memory, in place.
//!
//! Only the owner unlinks, so it may walk each list in place. It unlinks a dead entry by pointing
//! the link before it to the next entry; living entries stay where they are. A sweep may pause
//! anywhere, even inside a bucket. If that bucket is opened meanwhile, the sweep goes on with the
//! next.
//!
//! *Owner*: the shard's current owner: all state of a sweep is in the owner's core. The reaper
//! sweeps when nothing is due, and a chunk with each batch while it is busy. A thread that lets go
//! of seats while too many are dead sweeps a little itself, because the reaper may be inside a task
//! for any length of time.
//!
//! *Invariant*: a reader that stands on an entry that a sweep has unlinked, and that serves the
//! next timer already, finds that its word has changed, and begins with the list again (`scan`).
//!
//! *Orderings*: BUCKET-READ, SEAT, RELEASE.
//!
//! *Tested by*: `loom-tests/tests/{bucket_read,shard}.rs`, `tests/races/engine/scan.rs`.

use std::array;
use std::ptr::{self, NonNull};

use crate::entry::{Entry, Linked, Phase};
use crate::inbox::{CHAINS, Hand, next_of};
use crate::memory::{SEATS, Shared};
use crate::sync::events::{Event, reached};
use crate::sync::{Arc, IS_CHECKED, Ordering, prefetch};
use crate::time::{Place, Tick};

use super::{Bucket, Owner, Shard};

/// Buckets that a sweep looks into per entry that it may visit: most are empty.
const LOOKS: usize = 4;

/// Entries that a thread visits each time that it lets go of seats while too many are dead.
pub const HELP: usize = if IS_CHECKED { 2 } else { 16 * SEATS };

/// A sweep under way.
pub(super) struct Sweep<T> {
    /// The bucket or round that is being swept.
    spot: Spot,
    /// The hand of the round that is being swept.
    hand: Option<Arc<Hand<Entry<T>>>>,
    /// Rounds that are swept after this one.
    rounds: Vec<Place>,
    lists: [List<T>; CHAINS],
    /// The index of the list that is visited next.
    turn: usize,
    /// How many lists have entries left; they come first.
    live: usize,
}

/// A place that is swept: it has several lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// A bucket: level and slot.
    Bucket(u8, u32),
    /// A round at hand.
    Round(Place),
}

/// A sweep's position in a list.
struct List<T> {
    /// Which list of its bucket or hand it is.
    number: usize,
    /// The entry before `next`, which stays in the list; null if there is none.
    before: *mut Entry<T>,
    /// The entry that is visited next.
    next: *mut Entry<T>,
}

// SAFETY: the owner holds the entries that it points to, by their list bits; sending the one sends
// the other.
unsafe impl<T: Send> Send for Sweep<T> {}

// === impl Sweep ===

impl<T> Sweep<T> {
    fn begin() -> Box<Sweep<T>> {
        let list = |_| List { number: 0, before: ptr::null_mut(), next: ptr::null_mut() };
        let (lists, spot) = (array::from_fn(list), Spot::Bucket(1, 0));
        Box::new(Sweep { spot, hand: None, rounds: Vec::new(), lists, turn: 0, live: 0 })
    }

    /// Leaves `spot` if the sweep is there: its entries are about to be taken.
    #[inline]
    pub(super) fn leave(&mut self, spot: Spot) {
        if self.spot == spot {
            if self.live > 0 {
                reached(Event::SweepLeft);
            }
            self.live = 0;
        }
    }

    /// Begins with the lists of a spot, each given by its number and its first entry.
    fn enter(&mut self, spot: Spot, firsts: impl Iterator<Item = (usize, *mut Entry<T>)>) {
        (self.spot, self.turn, self.live) = (spot, 0, 0);
        for (number, next) in firsts.filter(|(_, first)| !first.is_null()) {
            prefetch(next);
            self.lists[self.live] = List { number, before: ptr::null_mut(), next };
            self.live += 1;
        }
    }

    /// Goes on to the next list. The last live list replaces one that is done.
    fn step(&mut self, is_done: bool) {
        if is_done {
            self.live -= 1;
            self.lists.swap(self.turn, self.live);
        }
        self.turn = if self.turn + 1 < self.live { self.turn + 1 } else { 0 };
    }
}

impl<T> Shard<T> {
    /// Sweeps a little as the owner, unless another thread has the shard's lock. For threads that
    /// let go of seats.
    pub fn help_sweep(&self, shared: &Shared<T>) {
        let Ok(mut owner) = self.owner.try_lock() else { return reached(Event::SweepBusy) };
        if self.sweep_some(&mut owner, shared, HELP) {
            reached(Event::SweepHelped);
            self.publish(&owner, shared);
        }
    }

    /// Continues the sweep under way or begins one that is wanted. Visits at most `visits` entries,
    /// and looks into at most `LOOKS` times as many buckets. Returns `false` if no sweep is wanted.
    #[inline]
    pub fn sweep_some(&self, owner: &mut Owner<T>, shared: &Shared<T>, visits: usize) -> bool {
        let sweeps = owner.sweep.is_some() || !owner.closed && self.begin_sweep(shared);
        if sweeps {
            self.sweep_on(owner, shared, visits);
        }
        sweeps
    }

    /// The same once a sweep is under way or wanted.
    fn sweep_on(&self, owner: &mut Owner<T>, shared: &Shared<T>, visits: usize) {
        let mut sweep = owner.sweep.take().unwrap_or_else(|| {
            reached(Event::SweepBegun);
            let mut sweep = Sweep::begin();
            self.look_into(&mut sweep, 1, 0);
            sweep
        });
        let (mut visited, mut looks) = (0, visits.saturating_mul(LOOKS));
        let mut is_all = false;
        while visited < visits && !is_all {
            if sweep.live > 0 {
                // SAFETY: the bucket or round that the lists belong to was not taken since.
                unsafe { self.visit(owner, shared, &mut sweep) };
                visited += 1;
            } else if looks > 0 {
                looks -= 1;
                is_all = !self.find_next(owner, &mut sweep);
            } else {
                break;
            }
        }
        if !is_all {
            reached(Event::SweepPaused);
            owner.sweep = Some(sweep);
        } else if self.wants_sweep() {
            reached(Event::SweepAgain);
        }
    }

    /// Goes on to the next bucket or round. Returns `false` if there is none.
    fn find_next(&self, owner: &Owner<T>, sweep: &mut Sweep<T>) -> bool {
        sweep.hand = None;
        if let Spot::Bucket(level, slot) = sweep.spot {
            if self.look_into(sweep, level, slot + 1) {
                return true;
            }
            // Entries that are put aside from now on were visited in their buckets.
            sweep.rounds = owner.rounds.places().collect();
        }
        let Some(place) = sweep.rounds.pop() else { return false };
        sweep.enter(Spot::Round(place), std::iter::empty());
        let hand = owner.rounds.at(place);
        reached(if hand.is_some() { Event::SweepRound } else { Event::SweepRoundGone });
        if let Some(hand) = hand {
            sweep.enter(Spot::Round(place), hand.chains().map(|(i, first)| (i, first.as_ptr())));
            sweep.hand = Some(hand.clone());
        }
        true
    }

    /// Begins with the first existing bucket from `level` and `slot` on. Returns `false` if there
    /// is none.
    fn look_into(&self, sweep: &mut Sweep<T>, level: u8, slot: u32) -> bool {
        let Some((level, slot, bucket)) = self.wheel.existing_from(level, slot).next() else {
            return false;
        };
        sweep.enter(Spot::Bucket(level, slot), bucket.firsts().enumerate());
        true
    }

    fn bucket_at(&self, level: u8, slot: u32) -> Option<&Bucket<T>> {
        self.wheel.get(Place { level, slot, expiration: Tick::ZERO })
    }

    /// Visits one entry, and unlinks it if it is dead.
    ///
    /// # Safety
    /// The sweep has an entry left, and its lists were not taken since it began with them.
    unsafe fn visit(&self, owner: &mut Owner<T>, shared: &Shared<T>, sweep: &mut Sweep<T>) {
        let at = sweep.lists[sweep.turn].next;
        let entry = NonNull::new(at).expect("a live list has an entry");
        // SAFETY: the owner holds each entry in a list, by its list bit.
        let this = unsafe { entry.as_ref() };
        let next = next_of(this);
        prefetch(next);
        owner.visited();
        let word = this.word();
        let is_dead = word.phase() == Phase::Vacant && !word.is_held();
        if is_dead && self.lead_past(sweep, next) {
            // SAFETY: the owner holds it; nobody else holds a dead entry, so it stays dead.
            let mine = unsafe { this.unlink(word) };
            debug_assert_eq!(mine, Some(true), "the dead stay dead");
            // SAFETY: the list has let go of it, and nobody kept it.
            unsafe { owner.bury(shared, entry) };
        } else {
            if is_dead {
                reached(Event::SweepPassed);
            }
            sweep.lists[sweep.turn].before = at;
        }
        sweep.lists[sweep.turn].next = next;
        sweep.step(next.is_null());
    }

    /// Points the link before the entry that is visited to the next one. Returns `false` if others
    /// were pushed before the entry since: it stays for the next sweep.
    fn lead_past(&self, sweep: &Sweep<T>, next: *mut Entry<T>) -> bool {
        let list = &sweep.lists[sweep.turn];
        // SAFETY: the owner holds each entry that stays in a list, by its list bit.
        if let Some(before) = unsafe { list.before.as_ref() } {
            // ORDER(BUCKET-READ): Release - as for every link. (A reader of the entry before sees
            // the next one as it was pushed in any case: it was pushed earlier.)
            before.next().store(next, Ordering::Release);
            return true;
        }
        match (sweep.spot, &sweep.hand) {
            (Spot::Bucket(level, slot), _) => {
                let bucket = self.bucket_at(level, slot).expect("it holds the entry");
                bucket.drop_first(list.number, list.next, next)
            }
            (Spot::Round(_), Some(hand)) => hand.drop_first(list.number, list.next, next),
            (Spot::Round(_), None) => false,
        }
    }
}
