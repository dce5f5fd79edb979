//! The lists of the buckets, which hold the timers themselves.
//!
//! A list is a chain of blocks. A block is a few cells in a row, and a cell holds a whole timer
//! with its payload. So a bucket that expires is read in sequence. If the lists held pointers
//! instead, each timer would cost a memory latency of its own. Blocks move between lists as they
//! are needed, so no list has memory of its own that could lie idle.
//!
//! Only the last block of a list may have vacant cells, behind the occupied ones. When a timer
//! leaves from the middle, the last one takes its cell. A list is known by its end: the number of
//! the cell after its last one. If the end is a multiple of the block length, the next timer needs
//! a new block; the end of an empty list is zero.
//!
//! A timer that moves from list to list is copied. That is cheaper than it looks: the reads are in
//! sequence, and the writes go to lists that were written just before.
//!
//! *Invariants*: the cells of a list before its end are occupied, every other cell is vacant; a
//! block is in one list or spare; no list ends with an empty block; unless memory was given back,
//! there is room for all timers in whichever lists they are.
//!
//! *Tested by*: the tests below, `tests/oracle.rs` through `Wheel::check`.

use alloc::{vec, vec::Vec};
use core::fmt;

use super::blocks::{Block, Blocks};
use super::entry::{Entry, Removed};
use super::key::Key;
use super::prefetch::prefetch;

/// The lists of a wheel, by number.
pub(super) struct Lists<T> {
    /// Every block's cells, block by block. A key is never zero and so tells a vacant cell from
    /// an occupied one in no extra space.
    pub(super) cells: Vec<Option<Entry<T>>>,
    pub(super) blocks: Blocks,
    /// Where each list ends.
    pub(super) ends: Vec<u32>,
    /// For so many timers there is room, in whichever lists they are, unless memory was given back.
    room: usize,
}

// With an 8-byte payload 32 timers fill twelve cache lines; the figures in PERF.md rest on this.
const _: () = assert!(size_of::<Option<Entry<u64>>>() == 24);

// === impl Lists ===

impl<T> Lists<T> {
    /// Cells of a block, as a power of two. A block takes up to a kilobyte, while it can.
    pub(super) const BLOCK_SHIFT: u32 = match size_of::<Option<Entry<T>>>() {
        0..=32 => 5,
        33..=64 => 4,
        65..=128 => 3,
        129..=256 => 2,
        _ => 1,
    };
    pub(super) const BLOCK: u32 = 1 << Self::BLOCK_SHIFT;

    pub(super) const fn new() -> Lists<T> {
        Lists { cells: Vec::new(), blocks: Blocks::new(), ends: Vec::new(), room: 0 }
    }

    /// Makes room for `timers` more, in up to `lists` lists.
    pub(super) fn reserve(&mut self, timers: usize, lists: usize) {
        let partial = lists.min(timers).saturating_mul(Self::BLOCK as usize);
        self.cells.reserve(timers.saturating_add(partial));
    }

    /// Makes lists up to the number `count`, exclusively.
    pub(super) fn grow(&mut self, count: usize) {
        self.ends.resize(count, 0);
        self.make_room(self.room);
    }

    /// Makes room for `timers` in all, in whichever lists they are: those that move from list to
    /// list need no memory then.
    pub(super) fn make_room(&mut self, timers: usize) {
        self.room = timers;
        let blocks = self.blocks_needed();
        self.blocks.make_room(blocks);
        let cells = blocks.saturating_mul(Self::BLOCK as usize);
        // Exactly: the number of timers grows in steps that double.
        self.cells.reserve_exact(cells.saturating_sub(self.cells.len()));
    }

    /// How many blocks there may be: each list may have one that is not full.
    fn blocks_needed(&self) -> usize {
        (self.room >> Self::BLOCK_SHIFT).saturating_add(self.count().min(self.room))
    }

    /// How many lists there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(super) fn is_empty(&self, list: u32) -> bool {
        self.ends[list as usize] == 0
    }

    /// Whether `list` exists and is not empty.
    #[inline]
    pub(super) fn has_any(&self, list: u32) -> bool {
        self.ends.get(list as usize).is_some_and(|end| *end > 0)
    }

    /// Takes a block for `list`, whose last one is full. It is in the list with the first timer
    /// that is [put](Lists::put) there, at the cell that this returns.
    ///
    /// # Panics
    /// If there are too many blocks to be numbered.
    #[inline]
    pub(super) fn add_block(&mut self, list: u32) -> u32 {
        let block = self.blocks.take_spare().unwrap_or_else(|| self.new_block());
        self.blocks.set(block, Block { list, below: self.ends[list as usize] });
        block << Self::BLOCK_SHIFT
    }

    /// Puts `entry` into the first cell of a block that was added to `list`.
    #[inline]
    pub(super) fn put(&mut self, list: u32, cell: u32, entry: Entry<T>) {
        self.cells[cell as usize] = Some(entry);
        self.ends[list as usize] = cell + 1;
    }

    #[inline(never)]
    fn new_block(&mut self) -> u32 {
        let end = self.cells.len() + Self::BLOCK as usize;
        assert!(u32::try_from(end).is_ok(), "2^32 cells are the limit");
        self.cells.resize_with(end, || None);
        self.blocks.make()
    }

    /// Adds `entry` to `list` and says at which cell; or gives it back if there is no such list or
    /// no vacant cell in its last block.
    #[inline]
    pub(super) fn push(&mut self, list: u32, entry: Entry<T>) -> Result<u32, Entry<T>> {
        let Some(end) = self.ends.get_mut(list as usize).filter(|end| **end % Self::BLOCK != 0)
        else {
            return Err(entry);
        };
        let cell = *end;
        *end = cell + 1;
        debug_assert!(self.cells[cell as usize].is_none(), "a cell behind the end is vacant");
        // SAFETY: an end that does not divide by the length of a block lies inside of one, and
        // all cells of all blocks exist. The cell is vacant, so nothing is overwritten undropped.
        unsafe { self.cells.as_mut_ptr().add(cell as usize).write(Some(entry)) };
        // The next line of the block, before others of this list are written there.
        prefetch(&self.cells, cell as usize, 64);
        Ok(cell)
    }

    /// Whether `cell` is the first of its block.
    #[inline]
    pub(super) const fn begins_block(cell: u32) -> bool {
        cell % Self::BLOCK == 0
    }

    /// One more than the largest cell.
    pub(super) fn end(&self) -> usize {
        self.cells.len()
    }

    /// The timer at `cell`, if there is one.
    #[inline]
    pub(super) fn get(&self, cell: u32) -> Option<&Entry<T>> {
        self.cells.get(cell as usize)?.as_ref()
    }

    /// The timer at `cell`, if there is one.
    #[inline]
    pub(super) fn get_mut(&mut self, cell: u32) -> Option<&mut Entry<T>> {
        self.cells.get_mut(cell as usize)?.as_mut()
    }

    /// The list that `cell` is in.
    #[inline]
    pub(super) fn list_of(&self, cell: u32) -> u32 {
        self.blocks.get(cell >> Self::BLOCK_SHIFT).list
    }

    /// Takes out the timer of `key`, which is at `cell` if it is anywhere.
    #[inline]
    pub(super) fn remove(&mut self, cell: u32, key: Key) -> Option<Removed<T>> {
        self.get(cell).filter(|entry| entry.key == key)?;
        // SAFETY: every cell belongs to a block.
        let list = unsafe { self.blocks.get_unchecked(cell >> Self::BLOCK_SHIFT) }.list;
        debug_assert!(self.has_any(list));
        // SAFETY: an occupied cell is before the end of the list that its block is in. So there is
        // that list, and its end is not zero.
        let end = unsafe { self.ends.get_unchecked_mut(list as usize) };
        let last = *end - 1;
        *end = last;
        debug_assert!(self.cells[last as usize].is_some());
        let cells = self.cells.as_mut_ptr();
        // SAFETY: both cells exist and are occupied: the one because a timer was found there, the
        // other because it is the last of the list that the first is in. Each timer is read once;
        // the one that is taken out is overwritten by the other, whose cell becomes vacant.
        let (entry, moved) = unsafe {
            let (at, from) = (cells.add(cell as usize), cells.add(last as usize));
            let entry = at.read().unwrap_unchecked();
            if cell != last {
                at.copy_from_nonoverlapping(from, 1);
            }
            from.write(None);
            (entry, (cell != last).then(|| (*at).as_ref().unwrap_unchecked().key))
        };
        let left = (last % Self::BLOCK == 0).then_some(list);
        Some(Removed { entry, moved, left })
    }

    /// Takes the last timer off `list`, and says whether that was the first of its block.
    #[inline(always)]
    pub(super) fn pop(&mut self, list: u32) -> Option<(Entry<T>, bool)> {
        let end = self.ends.get_mut(list as usize)?;
        let last = end.checked_sub(1)?;
        *end = last;
        debug_assert!(self.cells[last as usize].is_some());
        // SAFETY: the cell before the end of a list exists and is occupied. The timer is read once
        // and its cell becomes vacant.
        let entry = unsafe {
            let at = self.cells.as_mut_ptr().add(last as usize);
            let entry = at.read().unwrap_unchecked();
            at.write(None);
            entry
        };
        Some((entry, last % Self::BLOCK == 0))
    }

    /// Releases the last block of `list`, whose first timer, at the end, has left, and says
    /// whether the list is empty now.
    #[inline]
    pub(super) fn leave_block(&mut self, list: u32) -> bool {
        let end = &mut self.ends[list as usize];
        *end = self.blocks.leave(*end >> Self::BLOCK_SHIFT);
        *end == 0
    }

    /// The timers of the last block of `list`.
    #[inline]
    pub(super) fn last_block(&self, list: u32) -> impl Iterator<Item = &Entry<T>> {
        let end = self.ends.get(list as usize).map_or(0, |end| *end as usize);
        let first = end.saturating_sub(1) >> Self::BLOCK_SHIFT << Self::BLOCK_SHIFT;
        self.cells[first..end].iter().flatten()
    }

    /// Starts loading the last block of `list`.
    pub(super) fn prefetch(&self, list: u32) {
        if let Some(end) = self.ends.get(list as usize).filter(|end| **end > 0) {
            self.prefetch_block(*end);
        }
    }

    /// Starts loading the last block but one of `list`, which is not empty.
    pub(super) fn prefetch_below(&self, list: u32) {
        let block = (self.ends[list as usize] - 1) >> Self::BLOCK_SHIFT;
        let below = self.blocks.get(block).below;
        if below > 0 {
            self.prefetch_block(below);
        }
    }

    /// Starts loading a block up to `end`, which is not its start.
    #[inline(never)]
    pub(super) fn prefetch_block(&self, end: u32) {
        let first = (end - 1) >> Self::BLOCK_SHIFT << Self::BLOCK_SHIFT;
        let bytes = size_of::<Option<Entry<T>>>() * (end - first) as usize;
        for line in 0..bytes.div_ceil(64).min(16) {
            prefetch(&self.cells, first as usize, line * 64);
        }
    }

    /// Every occupied cell.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry<T>)> {
        (0..).zip(&self.cells).filter_map(|(cell, entry)| Some((cell, entry.as_ref()?)))
    }

    /// Asserts that ends, blocks and cells agree.
    pub(super) fn check(&self) {
        let mut occupied = vec![false; self.cells.len()];
        let mut used = Vec::new();
        for (list, end) in (0..).zip(&self.ends) {
            let mut end = *end;
            while end > 0 {
                let number = (end - 1) >> Self::BLOCK_SHIFT;
                used.push(number);
                let first = number << Self::BLOCK_SHIFT;
                occupied[first as usize..end as usize].fill(true);
                let block = self.blocks.get(number);
                assert_eq!(block.list, list, "block {number} knows its list");
                assert_eq!(block.below % Self::BLOCK, 0, "only the last block is not full");
                end = block.below;
            }
        }
        self.blocks.check(used.into_iter());
        let room = self.cells.capacity() >> Self::BLOCK_SHIFT;
        assert!(room >= self.blocks_needed(), "timers may come down to any list");
        for (cell, (entry, occupied)) in self.cells.iter().zip(occupied).enumerate() {
            assert_eq!(entry.is_some(), occupied, "cell {cell}");
        }
    }

    /// Gives memory back: the cells of spare blocks after the last that is in use, and what was
    /// reserved.
    pub(super) fn shrink(&mut self) {
        self.blocks.shrink();
        self.cells.truncate(self.blocks.count() << Self::BLOCK_SHIFT);
        self.cells.shrink_to_fit();
        self.room = 0;
    }
}

impl<T> fmt::Debug for Lists<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lists")
            .field("blocks", &self.blocks.count())
            .field("spare", &self.blocks.spare().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::super::key::Keys;
    use super::*;
    use crate::Tick;

    /// Lists and the keys of what is in them, with payloads of `N` bytes.
    struct Filled<const N: usize> {
        lists: Lists<[u8; N]>,
        keys: Keys,
    }

    impl<const N: usize> Filled<N> {
        fn new(count: usize) -> Filled<N> {
            let mut lists = Lists::new();
            lists.grow(count);
            Filled { lists, keys: Keys::new() }
        }

        fn push(&mut self, list: u32) -> Key {
            let key = self.keys.next_or_make();
            let entry = Entry { deadline: Tick::ZERO, key, payload: [key_byte(key); N] };
            let cell = self.lists.push(list, entry);
            let cell = cell.unwrap_or_else(|entry| {
                let cell = self.lists.add_block(list);
                self.lists.put(list, cell, entry);
                cell
            });
            self.keys.give(cell);
            key
        }

        fn remove(&mut self, key: Key) {
            let cell = self.keys.home(key).unwrap();
            let Removed { entry, moved, left } = self.lists.remove(cell, key).unwrap();
            assert_eq!((entry.key, entry.payload), (key, [key_byte(key); N]));
            if let Some(moved) = moved {
                self.keys.moved(moved, cell);
            }
            if let Some(list) = left {
                self.lists.leave_block(list);
            }
            self.keys.take(key);
            self.check();
        }

        fn check(&self) {
            self.lists.check();
            self.keys.check(self.lists.iter().map(|(cell, entry)| (entry.key, cell)));
        }
    }

    /// Something to know a key's payload by.
    fn key_byte(key: Key) -> u8 {
        format!("{key:?}").bytes().fold(0, u8::wrapping_add)
    }

    fn leaving_in_any_order<const N: usize>() {
        let mut filled = Filled::<N>::new(3);
        let mut keys: Vec<Key> = (0..200).map(|number| filled.push(number % 3)).collect();
        filled.check();
        let mut step = 7;
        while !keys.is_empty() {
            step += 31;
            let key = keys.swap_remove(step % keys.len());
            filled.remove(key);
            if step % 4 == 0 {
                keys.push(filled.push(step as u32 % 3));
            }
        }
        assert_eq!(filled.lists.blocks.spare().len(), filled.lists.blocks.count());
    }

    #[test]
    fn timers_leave_in_any_order_from_blocks_of_any_length() {
        leaving_in_any_order::<0>();
        leaving_in_any_order::<8>();
        leaving_in_any_order::<40>();
        leaving_in_any_order::<100>();
        leaving_in_any_order::<1000>();
    }

    #[test]
    fn a_block_that_one_list_left_serves_another() {
        let mut filled = Filled::<8>::new(2);
        let keys: Vec<Key> = (0..100).map(|_| filled.push(0)).collect();
        let blocks = filled.lists.blocks.count();
        keys.into_iter().for_each(|key| filled.remove(key));
        (0..100).for_each(|_| _ = filled.push(1));
        assert_eq!(filled.lists.blocks.count(), blocks);
        filled.check();
    }

    #[test]
    fn shrinking_releases_the_blocks_behind_the_last_one_in_use() {
        let mut filled = Filled::<8>::new(2);
        let keys: Vec<Key> = (0..100).map(|number| filled.push(number / 50)).collect();
        keys[20..].iter().for_each(|key| filled.remove(*key));
        filled.lists.shrink();
        filled.check();
        assert_eq!((filled.lists.cells.len(), filled.lists.cells.capacity()), (32, 32));
    }
}
