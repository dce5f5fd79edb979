//! A thread's free list: up to two magazines of memory that nobody else holds. And the outbox of a
//! shard's owner, which frees entries and needs none: each entry that waits there keeps its block,
//! so it is one magazine.
//!
//! *Owner*: one thread, or a shard's owner. What is too much goes to the depot of the shard in
//! which the thread schedules, or of which it is the owner: what fires there is for those who
//! schedule there. If no depot has room, it goes back to its blocks, a magazine at a time.

use std::mem;
use std::ptr::NonNull;

use crate::entry::Entry;
use crate::sync::{Ordering, fence, prefetch_to_write};

use super::depot::Magazine;
use super::items::{Memory, magazine};
use super::shared::Shared;

/// How many entries ahead of its use the cache line of an entry is prefetched: it was last written
/// by the core that fired it.
const AHEAD: usize = 6;

/// A thread's free entries.
pub(crate) struct FreeList<T> {
    /// The magazine in use.
    open: Magazine<Memory<T>>,
    /// Full or empty.
    spare: Magazine<Memory<T>>,
    /// The shard whose depot comes first.
    home: u32,
}

/// Free entries on the way to those who schedule.
pub(crate) struct Outbox<T> {
    magazine: Magazine<Memory<T>>,
    /// The shard whose depot comes first.
    home: u32,
}

// === impl FreeList ===

impl<T> FreeList<T> {
    /// An empty free list for shard `home`.
    pub(crate) fn new(shared: &Shared<T>, home: u32) -> FreeList<T> {
        let [open, spare] = [(); 2].map(|()| shared.memory.magazine(home));
        FreeList { open, spare, home }
    }

    /// Uses the depot of shard `home` from now on.
    pub(crate) fn move_to(&mut self, home: u32) {
        self.home = home;
    }

    /// The shard whose depots come first.
    pub(super) fn home(&self) -> u32 {
        self.home
    }

    /// A free entry: from the free list, from the depot, or from a block.
    #[inline]
    pub(crate) fn get(&mut self, shared: &Shared<T>) -> NonNull<Entry<T>> {
        match self.open.pop() {
            Some(Memory(entry)) => {
                if let Some(Memory(soon)) = self.open.iter().nth_back(AHEAD - 1) {
                    prefetch_to_write(soon.addr().get());
                }
                entry
            }
            None => self.refill(shared),
        }
    }

    /// Adds a free entry.
    ///
    /// # Safety
    /// The entry is of the engine of `shared`. The caller alone holds it and gives it up. It
    /// contains no payload that is still needed.
    #[inline]
    pub(crate) unsafe fn put(&mut self, shared: &Shared<T>, entry: NonNull<Entry<T>>) {
        if self.open.len() == const { magazine::<T>() } {
            self.make_room(shared);
        }
        self.open.push(Memory(entry));
    }

    /// Gives everything to the depot or back to the blocks.
    pub(crate) fn clear(&mut self, shared: &Shared<T>) {
        give_away(shared, self.home, &mut self.open);
        give_away(shared, self.home, &mut self.spare);
    }

    #[cold]
    fn refill(&mut self, shared: &Shared<T>) -> NonNull<Entry<T>> {
        mem::swap(&mut self.open, &mut self.spare);
        if self.open.is_empty() && !shared.memory.fetch(self.home, &mut self.open) {
            shared.blocks.take_entries(&mut self.open);
        }
        for Memory(soon) in self.open.iter().rev().take(AHEAD) {
            prefetch_to_write(soon.addr().get());
        }
        let Memory(entry) = self.open.pop().expect("a magazine that was filled");
        entry
    }

    #[cold]
    fn make_room(&mut self, shared: &Shared<T>) {
        if !self.spare.is_empty() {
            give_away(shared, self.home, &mut self.spare);
        }
        mem::swap(&mut self.open, &mut self.spare);
    }
}

// === impl Outbox ===

impl<T> Outbox<T> {
    /// An empty outbox for shard `home`.
    pub(crate) fn new(shared: &Shared<T>, home: u32) -> Outbox<T> {
        Outbox { magazine: shared.memory.magazine(home), home }
    }

    /// Adds a free entry.
    ///
    /// # Safety
    /// As [`FreeList::put`].
    #[inline]
    pub(crate) unsafe fn put(&mut self, shared: &Shared<T>, entry: NonNull<Entry<T>>) {
        self.magazine.push(Memory(entry));
        if self.magazine.len() == const { magazine::<T>() } {
            self.clear(shared);
        }
    }

    /// Gives everything to the depot or back to the blocks.
    #[cold]
    pub(crate) fn clear(&mut self, shared: &Shared<T>) {
        give_away(shared, self.home, &mut self.magazine);
    }

    /// The entry that was added last, for tests that use it again.
    #[cfg(test)]
    pub(crate) fn take_back(&mut self) -> Option<NonNull<Entry<T>>> {
        self.magazine.pop().map(|Memory(entry)| entry)
    }
}

/// Leaves a magazine in the depot, or releases its entries. The magazine is empty afterwards.
fn give_away<T>(shared: &Shared<T>, home: u32, magazine: &mut Magazine<Memory<T>>) {
    if magazine.is_empty() {
        return;
    }
    // ORDER(BUCKET-READ): SeqCst - after the owner has cut these entries out of lists, or
    // has read them as notices; before anybody can have one for another push. As the fence of
    // `Tray::take`, which those that the owner took out of buckets have had.
    fence(Ordering::SeqCst);
    if !shared.memory.leave(home, magazine) {
        shared.release(magazine);
    }
}
