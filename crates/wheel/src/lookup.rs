//! Finding and taking out timers by their keys, for both wheels.
//!
//! The table of keys says at which cell a timer lies, and the cell says whether it is still the
//! timer that the key names. When a timer leaves, the last one of its list moves into its place.
//! If a bucket loses a block by that, its wheel has to take note.
//!
//! *Tested by*: `tests/hierarchy.rs`, `tests/hashed.rs`, `tests/oracle.rs`.

use super::entry::{Entry, Removed};
use super::key::{Key, Keys};
use super::lists::Lists;

// === impl Lists ===

impl<T> Lists<T> {
    /// The timer of `key`, while that is pending.
    #[inline]
    pub(super) fn find(&self, keys: &Keys, key: Key) -> Option<&Entry<T>> {
        let cell = keys.home(key)?;
        self.get(cell).filter(|entry| entry.key == key)
    }

    /// The timer of `key`, while that is pending.
    #[inline]
    pub(super) fn find_mut(&mut self, keys: &Keys, key: Key) -> Option<&mut Entry<T>> {
        let cell = keys.home(key)?;
        self.get_mut(cell).filter(|entry| entry.key == key)
    }

    /// Takes out the timer of `key`, while that is pending, and says which list has to
    /// [leave](Lists::leave_block) its last block by this, if any. The key stays given out.
    #[inline(always)]
    pub(super) fn take_out(
        &mut self,
        keys: &mut Keys,
        key: Key,
    ) -> Option<(Entry<T>, Option<u32>)> {
        self.take_from(keys.home(key)?, keys, key)
    }

    /// The same where it is known that the timer is at `cell` if it is anywhere.
    #[inline(always)]
    pub(super) fn take_from(
        &mut self,
        cell: u32,
        keys: &mut Keys,
        key: Key,
    ) -> Option<(Entry<T>, Option<u32>)> {
        let Removed { entry, moved, left } = self.remove(cell, key)?;
        if let Some(moved) = moved {
            keys.moved(moved, cell);
        }
        Some((entry, left))
    }
}
