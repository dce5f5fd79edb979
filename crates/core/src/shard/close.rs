//! The end of a shard: it is closed, and later its memory is given back.
//!
//! *Closing*: no entry gets in any more, and all pending ones come out. The shard's owner closes:
//! what flushes and what closes needs the same lock. (A flush by another thread would swap out the
//! mark of a closed list and so reopen it.)
//!
//! *Dismantling*: a closed shard gives its memory back before the last trace of its engine is gone.
//! Each thread that used an engine keeps a part of it, and with that the engine's frame, until it
//! turns to another engine or ends. It must not keep the wheel, which may be large. So the wheel
//! and the depots are freed when nobody has the engine any more. A thread that files through an
//! engine holds it, so no such thread is left. Handles and higher-level APIs remain, which find the
//! engine by its number: they file as readers, from before they look a bucket up until they are
//! done. The thread that ended the engine dismantles.
//!
//! *Orderings*: STOP. The mark goes into the notices, the table of segments and every lane. A push
//! that comes before the mark is found here; one that comes after is refused and gives its
//! payload back in an error. There is no third case. A vacancy loses its list bit here, so a thread
//! that tries to take its seat later falls through to the push and its error.
//!
//! DISMANTLE. A mark replaces each ring in the wheel's table (AcqRel), and then the ring goes to
//! the epoch, which waits for each reader that found the ring before the mark (Acquire). A later
//! reader finds the mark, and its push is refused, as after any stop.
//!
//! *Tested by*: `loom-tests/tests/{stop,dismantle}.rs`, `tests/alone/freed_early.rs`.

use std::iter;
use std::mem;
use std::ptr::NonNull;

use crate::entry::{Guard, Phase};
use crate::inbox::next_of;
use crate::memory::{Count, Shared};
use crate::sync::events::{Event, reached};
use crate::time::{Place, Tick};

use super::opening::Open;
use super::sweep::Sweep;
use super::{ArmedHeap, Bucket, Owner, Shard};

impl<T> Shard<T> {
    /// Closes the shard and returns every payload that was pending in it. Closing again
    /// returns nothing. O(n) in entries and buckets.
    pub fn close(&self, owner: &mut Owner<T>, shared: &Shared<T>) -> Vec<T> {
        if owner.closed {
            return Vec::new();
        }
        owner.closed = true;
        // A thread that has lost the role hands the ones before back when it likes.
        owner.change_counters(shared);
        owner.count_held();
        let mut returned = taken_out(owner);
        self.wheel.close();
        self.close_notices(owner, shared);
        self.tell_what_was_under_way(owner);
        let under_way = [owner.due.take(), owner.eager.take()].into_iter().flatten();
        for open in under_way.chain(iter::from_fn(|| owner.parked.take())).collect::<Vec<_>>() {
            // SAFETY: the owner holds each entry in a tray, by its list bit.
            unsafe { self.settle_all(owner, shared, open, &mut returned) };
        }
        while let Some(place) = owner.rounds.opens.first() {
            let round = self.open_round(owner, place).expect("none of its level is before");
            // SAFETY: as above.
            unsafe { self.settle_all(owner, shared, round, &mut returned) };
        }
        // SAFETY: the caller has the owner's lock, so nobody dismantles the wheel.
        let guard = unsafe { Guard::assume() };
        for (level, slot, bucket) in self.wheel.existing(guard) {
            let place = Place { level, slot, expiration: Tick::ZERO };
            let open = self.open_bucket(owner, bucket, place, Bucket::close_into);
            // SAFETY: closing made the whole bucket the owner's.
            unsafe { self.settle_all(owner, shared, open, &mut returned) };
        }
        owner.heap = ArmedHeap::default();
        owner.sweep = Sweep::none();
        self.publish_first(Tick::NEVER);
        owner.outbox.clear(shared);
        owner.counters.add(Count::Returned, returned.len() as u64);
        shared.discharge_all(returned.iter());
        self.publish_counts(owner, shared);
        returned
    }

    /// Settles the entries left in a tray: takes the payloads out of those that are pending, and
    /// unlinks the vacant ones.
    ///
    /// # Safety
    /// The tray is the owner's, and so is every entry in it.
    unsafe fn settle_all(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        mut open: Open<T>,
        returned: &mut Vec<T>,
    ) {
        while let Some(entry) = open.tray.peek(&open.at) {
            // SAFETY: the tray holds it by its list bit.
            let it = (entry, unsafe { entry.as_ref() }.word());
            // SAFETY: the tray showed it.
            unsafe { open.tray.pass(&mut open.at, entry) };
            // SAFETY: the tray held it by its list bit, and the word was read from it.
            unsafe { self.settle(owner, shared, it, open.place, Some(Phase::Stopped), None) };
        }
        owner.put_away(open);
        returned.append(&mut taken_out(owner));
    }

    /// Counts in the midst of what the shard is closed.
    fn tell_what_was_under_way(&self, owner: &Owner<T>) {
        let under_way = [
            (owner.due.is_some(), Event::ClosedOpen),
            (owner.eager.is_some(), Event::ClosedCascade),
            (!owner.parked.is_empty(), Event::ClosedParked),
            (!owner.rounds.is_empty(), Event::ClosedRound),
            (owner.sweep.is_under_way(), Event::ClosedSweep),
        ];
        under_way.into_iter().filter(|&(is, _)| is).for_each(|(_, event)| reached(event));
    }

    fn close_notices(&self, owner: &mut Owner<T>, shared: &Shared<T>) {
        let mut next = self.notices.close();
        while let Some(notice) = NonNull::new(next) {
            reached(Event::ClosedNotice);
            // SAFETY: closing made the whole chain ours.
            next = next_of(unsafe { notice.as_ref() });
            // SAFETY: it was taken out of the list, and has no payload.
            unsafe { owner.outbox.put(shared, notice) };
        }
    }

    /// Gives back the memory of the wheel. Does nothing to a shard that is not closed.
    ///
    /// # Safety
    /// Every thread that still files here or looks at the wheel is a reader.
    pub unsafe fn dismantle(&self, owner: &mut Owner<T>) {
        if owner.closed {
            // SAFETY: passed on to the caller.
            unsafe { self.wheel.dismantle() };
        }
    }
}

/// The payloads that the owner has collected. The memory of its batch is given back.
fn taken_out<T>(owner: &mut Owner<T>) -> Vec<T> {
    mem::take(&mut owner.batch).into_iter().map(|(_, payload)| payload).collect()
}
