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

use std::mem;
use std::ptr::NonNull;

use crate::entry::Guard;
use crate::inbox::next_of;
use crate::memory::{Count, Shared};
use crate::time::{Place, Tick};

use super::agenda::Open;
use super::flush::Ends;
use super::swept::Sweep;
use super::{Bucket, Owner, Shard};

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
        self.wheel.close();
        self.close_notices(owner, shared);
        owner.sweep = Sweep::none();
        for open in owner.agenda.clear() {
            self.stop_all(owner, shared, open);
        }
        // SAFETY: the caller has the owner's lock, so nobody dismantles the wheel.
        let guard = unsafe { Guard::assume() };
        for (level, slot, bucket) in self.wheel.existing(guard) {
            let place = Place { level, slot, expiration: Tick::ZERO };
            let open = self.open_bucket(owner, bucket, place, Bucket::close_into);
            self.stop_all(owner, shared, open);
        }
        self.publish_first(Tick::NEVER);
        owner.outbox.clear(shared);
        // What was due and not yet handed over comes first.
        let batch = mem::take(&mut owner.batch);
        let returned: Vec<T> = batch.into_iter().map(|(_, payload)| payload).collect();
        owner.counters.add(Count::Returned, returned.len() as u64);
        shared.discharge_all(returned.iter());
        self.publish_counts(owner, shared);
        returned
    }

    /// Takes the payloads out of all entries left in a tray, whenever they are due, and unlinks the
    /// vacant ones.
    fn stop_all(&self, owner: &mut Owner<T>, shared: &Shared<T>, mut open: Open<T>) {
        self.settle_some(owner, shared, &mut open, Ends::All, usize::MAX);
        owner.put_away(open);
    }

    fn close_notices(&self, owner: &mut Owner<T>, shared: &Shared<T>) {
        let mut next = self.notices.close();
        while let Some(notice) = NonNull::new(next) {
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
