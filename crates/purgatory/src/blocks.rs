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
//! *Invariants*: each block is in one list, between its ends; the sequence numbers grow along a
//! list; a block has an operation or a pin; only the last block of a list gets new operations.
//!
//! *Tested by*: the unit tests in `src/watchers.rs`.

use super::chunks::Chunks;

/// No block: the end of a list.
const NONE: u32 = u32::MAX;

/// The number of operations in a block.
const ROOM: usize = 8;

/// The number of operations that are collected under the lock at a time.
pub(super) const BATCH: usize = 4 * ROOM;

/// All blocks of a part. `N` stands for an operation.
pub(super) struct Blocks<N> {
    blocks: Chunks<Block<N>>,
    /// The sequence number of the next block.
    next: u64,
}

struct Block<N> {
    /// The slot with the number `n` is the one at `n % ROOM` of block `n / ROOM`.
    slots: [Option<N>; ROOM],
    /// The hash of the list's key.
    hash: u64,
    /// The block's place in the sequence of all blocks of the part.
    sequence: u64,
    before: u32,
    after: u32,
    /// The number of walks that continue here.
    pins: u32,
    /// The number of slots that have been used, from the first one on.
    filled: u8,
    /// The number of slots in use.
    live: u8,
}

/// The ends of a list: the numbers of its first and its last block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    first: u32,
    last: u32,
}

/// A block that left its list, and the blocks that were before and after it.
pub(super) struct Freed {
    /// The hash of the list's key.
    pub(super) hash: u64,
    number: u32,
    before: u32,
    after: u32,
}

/// The position of a walk along a list.
#[derive(Debug)]
pub(super) struct Bookmark {
    block: u32,
    until: Until,
}

/// Where a list ended when a walk began: the block, and its used slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Until {
    sequence: u64,
    filled: u8,
}

// === impl Blocks ===

impl<N: Clone> Blocks<N> {
    pub(super) const fn new() -> Blocks<N> {
        Blocks { blocks: Chunks::new(), next: 0 }
    }

    /// All operations, once for each slot.
    pub(super) fn nodes(&self) -> Vec<N> {
        self.blocks.iter().flat_map(|block| block.slots.iter().flatten().cloned()).collect()
    }

    /// Adds an operation at the end of the list of a key, and returns its slot.
    pub(super) fn push(&mut self, hash: u64, ends: &mut Ends, node: N) -> u32 {
        let has_room = |last: &Block<N>| usize::from(last.filled) < ROOM;
        if ends.last == NONE || !has_room(&self.blocks[ends.last]) {
            self.append(hash, ends);
        }
        let last = &mut self.blocks[ends.last];
        let offset = last.filled;
        last.slots[usize::from(offset)] = Some(node);
        last.filled += 1;
        last.live += 1;
        ends.last * ROOM as u32 + u32::from(offset)
    }

    /// Removes the operation in a slot. Also returns its block if that left the list.
    pub(super) fn take(&mut self, slot: u32) -> (N, Option<Freed>) {
        let (number, offset) = (slot / ROOM as u32, slot as usize % ROOM);
        let block = &mut self.blocks[number];
        let node = block.slots[offset].take().expect("an operation leaves once");
        block.live -= 1;
        (node, self.free_if_empty(number))
    }

    /// Begins a walk along a list: collects the first operations, at most a batch. If there are
    /// more, the bookmark says where.
    pub(super) fn begin(&mut self, ends: Ends, batch: &mut Vec<N>) -> Option<Bookmark> {
        let Block { sequence, filled, .. } = self.blocks[ends.last];
        self.collect(ends.first, Until { sequence, filled }, batch)
    }

    /// Removes a bookmark. If there is a batch, continues there, and returns where to go on. Also
    /// returns the bookmark's block if that left the list.
    pub(super) fn go_on(
        &mut self,
        mark: Bookmark,
        batch: Option<&mut Vec<N>>,
    ) -> (Option<Bookmark>, Option<Freed>) {
        let next = batch.and_then(|batch| self.collect(mark.block, mark.until, batch));
        self.blocks[mark.block].pins -= 1;
        (next, self.free_if_empty(mark.block))
    }

    /// Clones the operations from a block on, and pins the first block that does not fit the batch.
    fn collect(&mut self, mut number: u32, until: Until, batch: &mut Vec<N>) -> Option<Bookmark> {
        while number != NONE {
            let block = &mut self.blocks[number];
            let here = Until { sequence: block.sequence, filled: 0 };
            if here >= until {
                break;
            }
            if batch.len() + ROOM > BATCH {
                block.pins += 1;
                return Some(Bookmark { block: number, until });
            }
            let is_cut = block.sequence == until.sequence;
            let end = if is_cut { usize::from(until.filled) } else { ROOM };
            batch.extend(block.slots[..end].iter().flatten().cloned());
            number = block.after;
        }
        None
    }

    /// Appends an empty block, which the caller fills at once.
    #[inline(never)]
    fn append(&mut self, hash: u64, ends: &mut Ends) {
        let slots = [const { None }; ROOM];
        let (before, after, sequence) = (ends.last, NONE, self.next);
        let (pins, filled, live) = (0, 0, 0);
        let block = Block { slots, hash, sequence, before, after, pins, filled, live };
        self.next += 1;
        let number = self.blocks.insert(block);
        assert!(number < NONE / ROOM as u32, "over 4,000,000,000 watchers");
        ends.last = number;
        match before {
            NONE => ends.first = number,
            before => self.blocks[before].after = number,
        }
    }

    #[inline]
    fn free_if_empty(&mut self, number: u32) -> Option<Freed> {
        let Block { live, pins, before, after, hash, .. } = self.blocks[number];
        if live > 0 || pins > 0 {
            return None;
        }
        if before != NONE {
            self.blocks[before].after = after;
        }
        if after != NONE {
            self.blocks[after].before = before;
        }
        self.blocks.remove(number);
        Some(Freed { hash, number, before, after })
    }

    /// Checks the invariants of a list, and returns how many operations and blocks it has.
    pub(super) fn check(&self, hash: u64, ends: Ends) -> (usize, usize) {
        let (mut before, mut number, mut least) = (NONE, ends.first, 0);
        let (mut operations, mut blocks) = (0, 0);
        while number != NONE {
            let block = &self.blocks[number];
            let live = block.slots.iter().flatten().count();
            assert_eq!((block.hash, block.before), (hash, before), "the links of block {number}");
            assert!((least..self.next).contains(&block.sequence), "numbers grow");
            assert_eq!(usize::from(block.live), live, "what is live is counted");
            assert!(live > 0 || block.pins > 0, "a block is empty and nobody stands there");
            assert!(block.slots[usize::from(block.filled)..].iter().all(Option::is_none));
            assert!(usize::from(block.filled) == ROOM || block.after == NONE);
            least = block.sequence + 1;
            (operations, blocks) = (operations + live, blocks + 1);
            (before, number) = (number, block.after);
        }
        assert_eq!(ends.last, before, "the list ends where it says");
        (operations, blocks)
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
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

    /// Whether a block was at an end when it left.
    pub(super) fn has(self, freed: &Freed) -> bool {
        self.first == freed.number || self.last == freed.number
    }

    /// Forgets a block that was at an end.
    pub(super) fn forget(&mut self, freed: &Freed) {
        if self.first == freed.number {
            self.first = freed.after;
        }
        if self.last == freed.number {
            self.last = freed.before;
        }
    }
}

// === impl Freed ===

impl Freed {
    /// Whether other blocks were on both sides, so that the ends of the list stay.
    pub(super) fn was_inside(&self) -> bool {
        self.before != NONE && self.after != NONE
    }
}
