//! Lists of operations, in blocks of a few.
//!
//! Operations that are registered one after another under a key lie in the same block, and mostly
//! end at about the same time. So removing one touches memory that was touched shortly before. A
//! block is freed when the last of its operations has left.
//!
//! A walk along a list *pins* the block that it continues with. A pinned block stays in the list,
//! empty or not.
//!
//! *Owner*: the thread that holds the lock of the part.
//!
//! *Invariants*: each block is in one list, between its ends; no number of a block is used twice,
//! and the numbers grow along a list; a block has an operation or a pin; only the last block of a
//! list gets new operations.
//!
//! *Tested by*: the unit tests in `src/purgatory/watchers.rs`.

use std::mem;

use hashbrown::HashTable;

use crate::sync::spread;

/// No block: the end of a list.
const NONE: u64 = u64::MAX;

/// The number of operations in a block.
const ROOM: u64 = 8;

/// The number of operations that are collected under the lock at a time.
pub(super) const BATCH: usize = 4 * ROOM as usize;

/// A table is not shrunk below this capacity.
pub(super) const KEPT: usize = 64;

/// All blocks of a part, by their numbers. `N` stands for an operation.
pub(super) struct Blocks<N> {
    table: HashTable<Box<Block<N>>>,
    next_number: u64,
}

struct Block<N> {
    /// The slot with the number `n` is the one at `n % ROOM` of block `n / ROOM`.
    slots: [Option<N>; ROOM as usize],
    number: u64,
    list: ListId,
    before: u64,
    after: u64,
    /// The number of walks that continue here.
    pins: u32,
    /// The number of slots that have been used, from the first one on.
    filled: u8,
    /// The number of slots in use.
    live: u8,
}

/// What tells a list from all others of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListId {
    /// The hash of its key.
    pub(super) hash: u64,
    pub(super) number: u64,
}

/// The ends of a list: the numbers of its first and its last block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    first: u64,
    last: u64,
}

/// The position of a walk along a list.
#[derive(Debug)]
pub(super) struct Bookmark {
    block: u64,
    /// The slot after the last one that was used when the walk began.
    until: u64,
}

// === impl Blocks ===

impl<N: Clone> Blocks<N> {
    pub(super) const fn new() -> Blocks<N> {
        Blocks { table: HashTable::new(), next_number: 0 }
    }

    /// The list that a slot belongs to.
    pub(super) fn list_of(&self, slot: u64) -> ListId {
        self.block(slot / ROOM).list
    }

    /// The list that a bookmark belongs to.
    pub(super) fn list_of_mark(&self, mark: &Bookmark) -> ListId {
        self.block(mark.block).list
    }

    /// All operations, once for each slot.
    pub(super) fn nodes(&self) -> Vec<N> {
        self.table.iter().flat_map(|block| block.slots.iter().flatten().cloned()).collect()
    }

    /// Adds an operation at the end of a list, and returns its slot.
    pub(super) fn push(&mut self, list: ListId, ends: &mut Ends, node: N) -> u64 {
        if ends.last == NONE || u64::from(self.block(ends.last).filled) == ROOM {
            self.append(list, ends);
        }
        let last = self.block_mut(ends.last);
        let slot = last.next_slot();
        last.slots[usize::from(last.filled)] = Some(node);
        last.filled += 1;
        last.live += 1;
        slot
    }

    /// Removes the operation in a slot from its list.
    pub(super) fn take(&mut self, ends: &mut Ends, slot: u64) -> N {
        let block = self.block_mut(slot / ROOM);
        let node = block.slots[(slot % ROOM) as usize].take().expect("an operation leaves once");
        block.live -= 1;
        if block.is_unused() {
            self.free(ends, slot / ROOM);
        }
        node
    }

    /// Begins a walk along a list: collects the first operations, at most a batch. If there are
    /// more, the bookmark says where.
    pub(super) fn begin(&mut self, ends: Ends, batch: &mut Vec<N>) -> Option<Bookmark> {
        let until = self.block(ends.last).next_slot();
        self.collect(ends.first, until, batch)
    }

    /// Continues at a bookmark, and moves it.
    pub(super) fn go_on(
        &mut self,
        ends: &mut Ends,
        mark: Bookmark,
        batch: &mut Vec<N>,
    ) -> Option<Bookmark> {
        let next = self.collect(mark.block, mark.until, batch);
        self.close_book(ends, mark);
        next
    }

    /// Removes a bookmark.
    pub(super) fn close_book(&mut self, ends: &mut Ends, mark: Bookmark) {
        let block = self.block_mut(mark.block);
        block.pins -= 1;
        if block.is_unused() {
            self.free(ends, mark.block);
        }
    }

    /// Clones the operations from a block on, and pins the first block that does not fit the batch.
    fn collect(&mut self, mut number: u64, until: u64, batch: &mut Vec<N>) -> Option<Bookmark> {
        while number != NONE && number * ROOM < until {
            let block = self.block_mut(number);
            if batch.len() + ROOM as usize > BATCH {
                block.pins += 1;
                return Some(Bookmark { block: number, until });
            }
            let end = ROOM.min(until - number * ROOM);
            batch.extend(block.slots[..end as usize].iter().flatten().cloned());
            number = block.after;
        }
        None
    }

    /// Appends an empty block, which the caller fills at once.
    #[inline(never)]
    fn append(&mut self, list: ListId, ends: &mut Ends) {
        let number = self.next_number;
        self.next_number += 1;
        let before = mem::replace(&mut ends.last, number);
        let slots = [const { None }; ROOM as usize];
        let (after, pins, filled, live) = (NONE, 0, 0, 0);
        let block = Block { slots, number, list, before, after, pins, filled, live };
        self.table.insert_unique(spread(number), Box::new(block), |block| spread(block.number));
        match before {
            NONE => ends.first = number,
            before => self.block_mut(before).after = number,
        }
    }

    /// Removes an unused block from its list, and frees it.
    #[inline(never)]
    fn free(&mut self, ends: &mut Ends, number: u64) {
        let place = self.table.find_entry(spread(number), |block| block.number == number);
        let (block, _) = place.ok().expect("a block is freed once").remove();
        let Block { before, after, .. } = *block;
        match before {
            NONE => ends.first = after,
            before => self.block_mut(before).after = after,
        }
        match after {
            NONE => ends.last = before,
            after => self.block_mut(after).before = before,
        }
        shrink(&mut self.table, |block| spread(block.number));
    }

    #[inline]
    fn block(&self, number: u64) -> &Block<N> {
        let block = self.table.find(spread(number), |block| block.number == number);
        block.expect("a block with that number is there")
    }

    #[inline]
    fn block_mut(&mut self, number: u64) -> &mut Block<N> {
        let block = self.table.find_mut(spread(number), |block| block.number == number);
        block.expect("a block with that number is there")
    }

    /// Checks the invariants of a list, and returns how many operations and blocks it has.
    pub(super) fn check(&self, list: ListId, ends: Ends) -> (usize, usize) {
        let (mut before, mut number, mut least) = (NONE, ends.first, 0);
        let (mut operations, mut blocks) = (0, 0);
        while number != NONE {
            let block = self.block(number);
            let live = block.slots.iter().flatten().count();
            assert_eq!((block.list, block.before), (list, before), "the links of block {number}");
            assert!((least..self.next_number).contains(&number), "numbers grow");
            assert_eq!(usize::from(block.live), live, "what is live is counted");
            assert!(!block.is_unused(), "a block is empty and nobody stands there");
            assert!(block.slots[usize::from(block.filled)..].iter().all(Option::is_none));
            assert!(u64::from(block.filled) == ROOM || block.after == NONE);
            least = number + 1;
            (operations, blocks) = (operations + live, blocks + 1);
            (before, number) = (number, block.after);
        }
        assert_eq!(ends.last, before, "list {list:?} ends where it says");
        (operations, blocks)
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many blocks the table has room for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.table.capacity()
    }
}

/// Releases memory of a table after a burst.
pub(super) fn shrink<T>(table: &mut HashTable<T>, hash: impl Fn(&T) -> u64) {
    let (len, capacity) = (table.len(), table.capacity());
    if capacity > KEPT && len < capacity / 8 {
        table.shrink_to(2 * len, hash);
    }
}

// === impl Block ===

impl<N> Block<N> {
    /// The slot of the next operation, if there is room.
    fn next_slot(&self) -> u64 {
        self.number * ROOM + u64::from(self.filled)
    }

    fn is_unused(&self) -> bool {
        self.live == 0 && self.pins == 0
    }
}

// === impl Ends ===

impl Ends {
    /// The ends of an empty list.
    pub(super) const fn new() -> Ends {
        Ends { first: NONE, last: NONE }
    }

    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }
}
