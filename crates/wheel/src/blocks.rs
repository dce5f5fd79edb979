//! Which list a block of cells is in, and which come before it there.
//!
//! *Invariants*: a block is in one list or spare; there is room for all blocks among the spare.
//!
//! *Tested by*: the tests in `crates/wheel/src/lists.rs`, `tests/oracle.rs` through `Wheel::check`.

use alloc::{vec, vec::Vec};

/// The blocks of a wheel, by number.
#[derive(Debug)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// Blocks that are in no list, the latest to have left one first.
    spare: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The list that it is in, if any.
    pub(super) list: u32,
    /// Where that list ended when the block came to it.
    pub(super) below: u32,
}

// === impl Blocks ===

impl Blocks {
    pub(super) const fn new() -> Blocks {
        Blocks { blocks: Vec::new(), spare: Vec::new() }
    }

    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks that are in no list.
    pub(super) fn spare(&self) -> &[u32] {
        &self.spare
    }

    /// Makes room for `count` in all.
    pub(super) fn make_room(&mut self, count: usize) {
        self.blocks.reserve_exact(count.saturating_sub(self.blocks.len()));
        self.spare.reserve_exact(self.blocks.capacity() - self.spare.len());
    }

    /// Makes another one, which is in no list and not spare either.
    pub(super) fn make(&mut self) -> u32 {
        self.blocks.push(Block { list: 0, below: 0 });
        self.spare.reserve(self.blocks.len() - self.spare.len());
        self.blocks.len() as u32 - 1
    }

    /// Takes one that is spare.
    #[inline]
    pub(super) fn take_spare(&mut self) -> Option<u32> {
        self.spare.pop()
    }

    /// Notes where `number` is from now on.
    #[inline]
    pub(super) fn set(&mut self, number: u32, block: Block) {
        self.blocks[number as usize] = block;
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Block {
        self.blocks[number as usize]
    }

    /// The same without looking whether there is such a block.
    ///
    /// # Safety
    /// There is one.
    #[inline]
    pub(super) unsafe fn get_unchecked(&self, number: u32) -> Block {
        debug_assert!((number as usize) < self.blocks.len());
        // SAFETY: the caller promises it.
        unsafe { *self.blocks.get_unchecked(number as usize) }
    }

    /// Takes `number`, the last block of its list, out of it, and says where that ends now.
    #[inline]
    pub(super) fn leave(&mut self, number: u32) -> u32 {
        // To say so here is to know below that the push makes no call.
        assert!(self.spare.len() < self.spare.capacity(), "there is room for all blocks");
        self.spare.push(number);
        self.blocks[number as usize].below
    }

    /// Gives memory back: spare blocks after the last that is in use, and what was reserved.
    pub(super) fn shrink(&mut self) {
        self.spare.sort_unstable();
        while self.spare.last().is_some_and(|last| *last as usize + 1 == self.blocks.len()) {
            self.spare.pop();
            self.blocks.pop();
        }
        self.blocks.shrink_to_fit();
        self.spare.shrink_to(self.blocks.len());
    }

    /// Asserts that `used`, the blocks of all lists, and the spare ones are all that there are.
    pub(super) fn check(&self, used: impl Iterator<Item = u32>) {
        assert!(self.spare.capacity() >= self.blocks.len(), "there is room for all blocks");
        let mut seen = vec![false; self.blocks.len()];
        for number in used.chain(self.spare.iter().copied()) {
            let was_seen = core::mem::replace(&mut seen[number as usize], true);
            assert!(!was_seen, "block {number} is in two places");
        }
        assert!(seen.into_iter().all(|seen| seen), "a block is in no place");
    }
}
