//! A thread's free list: up to two magazines of memory that nobody else holds.
//!
//! *Owner*: one thread, or a shard's owner. What exceeds the two magazines goes to the depot. If
//! the depot has no room, it goes back to its blocks, a magazine at a time and after all readers.

use std::mem;
use std::ptr::NonNull;

use crate::entry::Entry;
use crate::sync::events::{Event, reached};
use crate::sync::{IS_CHECKED, prefetch};

use super::depot::Magazine;
use super::shared::{Memory, Shared};

/// Entries in a full magazine of memory.
pub(crate) const MAGAZINE: usize = if IS_CHECKED { 2 } else { 64 };

/// How many entries ahead of its use the cache line of an entry is prefetched: it was last written
/// by the core that fired it.
const AHEAD: usize = 6;

/// Free entries at hand.
pub(crate) struct FreeList<T> {
    /// The magazine in use.
    open: Magazine<Memory<T>>,
    /// Full or empty.
    spare: Magazine<Memory<T>>,
}

// === impl FreeList ===

impl<T> FreeList<T> {
    /// An empty free list.
    pub(crate) fn new(shared: &Shared<T>) -> FreeList<T> {
        FreeList { open: shared.memory.magazine(), spare: shared.memory.magazine() }
    }

    /// A free entry: from the free list, from the depot, or from a block.
    #[inline]
    pub(crate) fn get(&mut self, shared: &Shared<T>) -> NonNull<Entry<T>> {
        match self.open.pop() {
            Some(Memory(entry)) => {
                if let Some(Memory(soon)) = self.open.iter().nth_back(AHEAD - 1) {
                    prefetch(soon.as_ptr());
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
        if self.open.len() == MAGAZINE {
            self.make_room(shared);
        }
        self.open.push(Memory(entry));
    }

    /// Gives everything to the depot or back to the blocks.
    pub(crate) fn clear(&mut self, shared: &Shared<T>) {
        give_away(shared, &mut self.open);
        give_away(shared, &mut self.spare);
    }

    #[cold]
    fn refill(&mut self, shared: &Shared<T>) -> NonNull<Entry<T>> {
        mem::swap(&mut self.open, &mut self.spare);
        if self.open.is_empty() {
            if shared.memory.fetch(&mut self.open) {
                reached(Event::MemoryFetched);
            } else {
                shared.blocks.take(&mut self.open);
            }
        }
        for Memory(soon) in self.open.iter().rev().take(AHEAD) {
            prefetch(soon.as_ptr());
        }
        let Memory(entry) = self.open.pop().expect("a magazine that was filled");
        entry
    }

    #[cold]
    fn make_room(&mut self, shared: &Shared<T>) {
        if !self.spare.is_empty() {
            give_away(shared, &mut self.spare);
        }
        mem::swap(&mut self.open, &mut self.spare);
    }
}

/// Leaves a magazine in the depot, or releases its entries. The magazine is empty afterwards.
fn give_away<T>(shared: &Shared<T>, magazine: &mut Magazine<Memory<T>>) {
    if !magazine.is_empty() && !shared.memory.leave(magazine) {
        reached(Event::MemoryReleased);
        shared.release(mem::replace(magazine, shared.memory.magazine()));
    }
}
