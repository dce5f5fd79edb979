//! The end of a shard: it is closed, and later its memory is given back.
//!
//! *Closing*: no entry gets in any more, and all pending ones come out. The shard's owner closes,
//! because the role that flushes is the role that closes. (A flush by another thread would swap out
//! the mark of a closed list and so reopen it.)
//!
//! *Dismantling*: a closed shard gives its memory back before the last trace of its engine is gone.
//! Each thread that used an engine keeps a part of it, and with that the engine's frame, until it
//! turns to another engine or ends. It must not keep the wheel, which may be large. So the wheel
//! and the depots are freed when nobody has the engine any more. A thread that files through an
//! engine holds it, so no such thread is left. Handles and doors that find the engine by its number
//! remain: they file as readers, from before they look a bucket up until they are done. The thread
//! that ended the engine dismantles.
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
//! *Tested by*: `loom-tests/tests/{stop,dismantle}.rs`, `tests/freed_early.rs`.

use std::ptr::NonNull;

use crate::entry::{Entry, Phase};
use crate::inbox::next_of;
use crate::memory::{Count, Shared};
use crate::time::{Place, Tick};

use super::owner::Open;
use super::{ArmedHeap, Bucket, Notice, Owner, Shard};

impl<T> Shard<T> {
    /// Closes the shard and returns every payload that was pending in it. Closing again
    /// returns nothing. O(n) in entries and buckets.
    pub fn close(&self, owner: &mut Owner<T>, shared: &Shared<T>) -> Vec<T> {
        if owner.closed {
            return Vec::new();
        }
        owner.closed = true;
        let mut returned: Vec<T> = owner.batch.drain(..).map(|(_, payload)| payload).collect();
        self.wheel.close();
        self.close_notices();
        owner.sweep = None;
        let open: Vec<Open<T>> =
            [owner.due.take(), owner.eager.take()].into_iter().flatten().collect();
        for open in open {
            // SAFETY: the owner holds each entry in a hand, by its list bit.
            unsafe { settle_all(owner, shared, open, &mut returned) };
        }
        while let Some(round) = owner.rounds.first().and_then(|place| owner.open_round(place)) {
            // SAFETY: as above.
            unsafe { settle_all(owner, shared, round, &mut returned) };
        }
        for (level, slot, bucket) in self.wheel.existing() {
            let place = Place { level, slot, expiration: Tick::ZERO };
            let open = Self::open_bucket(owner, bucket, place, Bucket::close_into);
            // SAFETY: closing made the whole bucket the owner's.
            unsafe { settle_all(owner, shared, open, &mut returned) };
        }
        owner.heap.clear();
        owner.free_list.clear(shared);
        owner.counters.add(Count::Returned, returned.len() as u64);
        shared.discharge(returned.len() as u64);
        self.publish(owner, shared);
        returned
    }

    fn close_notices(&self) {
        let mut next = self.notices.close();
        while let Some(notice) = NonNull::new(next) {
            // SAFETY: closing made the whole chain ours.
            next = next_of(unsafe { notice.as_ref() });
            // SAFETY: it was taken out of the list and is not used again.
            unsafe { Notice::let_go(notice) };
        }
    }

    /// Gives back the memory of the wheel, of the armed heap and of the batch. Does nothing to a
    /// shard that is not closed.
    ///
    /// # Safety
    /// Every thread that still files here or looks at the wheel is a reader.
    pub unsafe fn dismantle(&self, owner: &mut Owner<T>) {
        if !owner.closed {
            return;
        }
        // SAFETY: passed on to the caller.
        unsafe { self.wheel.dismantle() };
        owner.heap = ArmedHeap::new();
        owner.batch.shrink_to_fit();
    }
}

/// Settles the entries left in a hand.
///
/// # Safety
/// The hand is the owner's, and so is every entry in it.
unsafe fn settle_all<T>(
    owner: &mut Owner<T>,
    shared: &Shared<T>,
    mut open: Open<T>,
    returned: &mut Vec<T>,
) {
    while let Some(entry) = open.hand.peek(&open.at) {
        // SAFETY: the hand showed it.
        unsafe { open.hand.pass(&mut open.at, entry) };
        // SAFETY: the hand held it by its list bit.
        unsafe { settle(owner, shared, entry, returned) };
    }
    owner.put_away(open);
}

/// Takes the payload out of a pending entry, or unlinks a vacant one.
///
/// # Safety
/// The owner holds the entry by its list bit.
unsafe fn settle<T>(
    owner: &mut Owner<T>,
    shared: &Shared<T>,
    entry: NonNull<Entry<T>>,
    returned: &mut Vec<T>,
) {
    // SAFETY: the owner holds it.
    let this = unsafe { entry.as_ref() };
    loop {
        let word = this.word();
        if word.phase() == Phase::Vacant {
            // SAFETY: the owner holds it; `word` is vacant.
            match unsafe { this.unlink(word) } {
                // SAFETY: nobody kept it, so it is held here alone.
                Some(true) => return unsafe { owner.bury(shared, entry) },
                Some(false) => return,
                None => continue,
            }
        }
        // SAFETY: the owner holds it; `word` is pending.
        if let Some(taken) = unsafe { this.end(word, Phase::Stopped) } {
            returned.push(taken.payload);
            if taken.mine {
                // SAFETY: no handle is left, so it is held here alone, and the payload is out.
                unsafe { owner.free_list.put(shared, entry) };
            }
            return;
        }
    }
}
