//! The scan: a reader finds the pending timers while everything runs.
//!
//! *Owner*: any thread, under a [`Reader`]: no entry that it may see is given back to the
//! allocator while it looks. Entries may be *recycled* under it, so it trusts only the current
//! state of an entry, stops following a chain that left its bucket, and bounds its steps.
//!
//! It visits the buckets and then the owner's hands, in the order in which entries move (`hands`):
//! an entry that is missing from its bucket because that was opened is found in a hand. A re-filed
//! entry moves the other way, from a hand into a bucket, and may be missed. So the scan makes
//! another pass until nothing left a hand during a pass. The number of passes is bounded, because a
//! timer is re-filed at most once on each level (`looks`). Duplicates are found by their address.
//!
//! *Orderings*: BUCKET-READ.
//!
//! *Tested by*: `tests/races/scan.rs`, `loom-tests/tests/bucket_read.rs`.

use std::ptr::NonNull;

use crate::entry::{Entry, Linked, Phase, Reader};
use crate::sync::Ordering;
use crate::sync::events::{Event, reached};
use crate::time::Tick;

use super::rounds::place_of;
use super::{Bucket, Shard};

/// A timer that was pending when the scan visited it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// When it is due, in ticks since the engine's start.
    pub deadline: Tick,
    /// The level on which it is filed, from 1.
    pub level: u8,
    /// The shard that serves it.
    pub shard: u32,
}

/// What a scan found, and where.
type Found<T> = (*const Entry<T>, Pending);

impl<T> Shard<T> {
    /// Calls `f` for each pending timer. Makes at most `looks` passes. Each pass follows at most
    /// `steps` links through the buckets, and as many through the hands.
    ///
    /// Weakly consistent: a timer is seen exactly once if it is pending from before the scan until
    /// after it, is not reset, and is not re-filed in every pass. A timer that comes, goes or is
    /// reset meanwhile may be seen once, twice or not at all.
    pub fn scan(&self, reader: &Reader, steps: u64, looks: u32, f: impl FnMut(Pending)) {
        let mut found: Vec<Found<T>> = Vec::new();
        let mut before = (looks > 1).then(|| self.progress()).flatten();
        let mut may_repeat = false;
        for left in (0..looks).rev() {
            may_repeat |= self.look(reader, steps, &mut found);
            if left == 0 {
                break;
            }
            let after = self.progress();
            if before.is_some() && before == after {
                break;
            }
            reached(Event::ScanAgain);
            (before, may_repeat) = (after, true);
        }
        if may_repeat {
            // The last pass has its current place.
            found.reverse();
            found.sort_by_key(|&(entry, _)| entry);
            found.dedup_by_key(|&mut (entry, _)| entry);
        }
        found.into_iter().map(|(_, pending)| pending).for_each(f);
    }

    /// How many passes show every timer that is pending throughout: it is re-filed at most once on
    /// each level, and once more if it began on a seat.
    pub fn looks(&self) -> u32 {
        u32::from(self.wheel.geometry().levels()) + 2
    }

    /// The owner's progress through its hands. `None`: an entry is moving.
    fn progress(&self) -> Option<Vec<usize>> {
        let mut progress = Vec::new();
        self.hands.iter().all(|hand| hand.note(&mut progress)).then_some(progress)
    }

    /// Makes one pass. Returns `true` if an entry was in a hand: it may have been seen in its
    /// bucket before.
    fn look(&self, reader: &Reader, steps: u64, found: &mut Vec<Found<T>>) -> bool {
        let mut left = steps;
        for (level, slot, bucket) in self.wheel.existing() {
            self.read_bucket(reader, bucket, place_of(level, slot), &mut left, |it| found.push(it));
        }
        let in_buckets = found.len();
        left = steps;
        for hand in self.hands.iter() {
            let see = |of, entry| self.see(of, entry, |it| found.push(it));
            // SAFETY: the reader is the guard.
            unsafe { hand.read(&mut left, see) };
        }
        found.len() > in_buckets
    }

    pub(super) fn read_bucket(
        &self,
        _reader: &Reader,
        bucket: &Bucket<T>,
        of: u64,
        left: &mut u64,
        mut f: impl FnMut(Found<T>),
    ) {
        for first in bucket.firsts() {
            let mut next = first;
            while let Some(entry) = NonNull::new(next).filter(|_| *left > 0) {
                *left -= 1;
                if !self.see(Some(of), entry, &mut f) {
                    break;
                }
                // ORDER(BUCKET-READ): Acquire - pairs with the Release of the link in
                // `Stack::push`: the node behind it is visible.
                // SAFETY: it was reached from a bucket under the reader's guard, so it is not
                // given back to the allocator before the guard is gone.
                next = unsafe { entry.as_ref() }.next().load(Ordering::Acquire);
            }
        }
    }

    /// Looks at an entry that was reached under a guard. Returns `false` if it was reached from the
    /// place `of` and is no longer filed there.
    pub(super) fn see(
        &self,
        of: Option<u64>,
        entry: NonNull<Entry<T>>,
        f: impl FnOnce(Found<T>),
    ) -> bool {
        // SAFETY: it was reached under the caller's guard; all that is read of it here is atomic.
        let this = unsafe { entry.as_ref() };
        let (word, filed) = (this.word(), this.filed_and_before());
        let level = filed.level.max(1);
        let place = self.wheel.geometry().place_on(filed.expiration, level);
        if of.is_some_and(|of| place_of(place.level, place.slot) != of) {
            return false;
        }
        if word.phase() == Phase::Pending && word.in_list() && this.shard() == self.index {
            let deadline = word.deadline();
            f((entry.as_ptr(), Pending { deadline, level, shard: self.index }));
        }
        true
    }
}
