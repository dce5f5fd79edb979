//! Going through one list, from its end to its start.
//!
//! That direction is what taking timers out on the way needs: what moves into the place of one
//! that leaves comes from behind, and so has been looked at.
//!
//! *Tested by*: `tests/hashed.rs`, `tests/both.rs` (lists of many blocks),
//! `tests/oracle.rs`.

use crate::Tick;

use super::entry::Entry;
use super::key::Key;
use super::lists::Lists;

// === impl Lists ===

impl<T> Lists<T> {
    /// Where `list` ends; zero if it is empty, or if there is no such list.
    #[inline]
    pub(super) fn end_of(&self, list: u32) -> u32 {
        self.ends.get(list as usize).map_or(0, |end| *end)
    }

    /// Where that ends which comes before `cell` in its list.
    #[inline]
    pub(super) fn end_before(&self, cell: u32) -> u32 {
        if cell % Self::BLOCK == 0 { self.below(cell >> Self::BLOCK_SHIFT) } else { cell }
    }

    /// The last timer of `list`, if it is not empty.
    pub(super) fn last(&self, list: u32) -> Option<&Entry<T>> {
        self.get(self.end_of(list).checked_sub(1)?)
    }

    /// The last timer before `end`, in the same list, that is due by `now`: its cell and its key.
    #[inline]
    pub(super) fn last_due(&self, end: u32, now: Tick) -> Option<(u32, Key)> {
        let is_due = |cell: &Option<Entry<T>>| cell.as_ref().is_some_and(|e| e.deadline <= now);
        self.blocks_before(end).find_map(|(first, cells)| {
            let offset = cells.iter().rposition(is_due)?;
            let key = cells[offset].as_ref()?.key;
            Some((first + offset as u32, key))
        })
    }

    /// The timers of `list`.
    pub(super) fn timers(&self, list: u32) -> impl Iterator<Item = &Entry<T>> {
        self.blocks_before(self.end_of(list)).flat_map(|(_, cells)| cells.iter().flatten())
    }

    /// The blocks of a list up to `end`, the last one first: the number of the first cell, and the
    /// occupied cells.
    #[inline]
    fn blocks_before(&self, end: u32) -> impl Iterator<Item = (u32, &[Option<Entry<T>>])> {
        let mut end = end;
        core::iter::from_fn(move || {
            let number = end.checked_sub(1)? >> Self::BLOCK_SHIFT;
            let first = number << Self::BLOCK_SHIFT;
            let cells = &self.cells[first as usize..end as usize];
            end = self.below(number);
            if end > 0 && cells.len() == Self::BLOCK as usize {
                // While this one is read, the next comes. (A walk that takes timers out comes by
                // for each of them, with less than a whole block left.)
                self.prefetch_block(end);
            }
            Some((first, cells))
        })
    }

    /// Where the list of the block `number` ended before that came to it.
    #[inline]
    fn below(&self, number: u32) -> u32 {
        self.blocks.get(number).below
    }
}
