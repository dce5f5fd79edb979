//! Taking every timer out of a wheel.

use core::fmt;
use core::iter::FusedIterator;

use crate::Tick;

use super::hashed::HashedWheel;
use super::key::{Key, Keys};
use super::lists::Lists;
use super::occupancy::Occupancy;
use super::wheel::Wheel;

/// The iterator of [`Wheel::drain`] and [`HashedWheel::drain`]: deadlines and payloads.
///
/// ```
/// use tickless_wheel::{Drain, Tick, Wheel};
///
/// let mut wheel = Wheel::default();
/// wheel.insert(Tick::new(1), 'a');
/// wheel.insert(Tick::new(2), 'b');
/// let drain: Drain<'_, char> = wheel.drain();
/// assert_eq!(drain.len(), 2);
/// ```
pub struct Drain<'a, T> {
    keys: &'a mut Keys,
    lists: &'a mut Lists<T>,
    /// Where the wheel notes which lists are not empty, if it does.
    occupied: Option<&'a mut Occupancy>,
    /// Cells before this one are vacant.
    cell: u32,
}

// === impl Wheel ===

impl<T> Wheel<T> {
    /// Removes every pending timer, in no particular order.
    ///
    /// A timer leaves when the iterator yields it. Dropping the iterator drops the rest, up to one
    /// whose drop panics. Takes time for every timer that there is room for.
    pub fn drain(&mut self) -> Drain<'_, T> {
        let (lists, occupied) = self.rings.parts();
        Drain { keys: &mut self.keys, lists, occupied: Some(occupied), cell: 0 }
    }

    /// Drops every pending timer, up to one whose drop panics. Their keys go stale; time and memory
    /// stay. Takes time for every timer that there is room for.
    pub fn clear(&mut self) {
        drop(self.drain());
    }
}

// === impl HashedWheel ===

impl<T> HashedWheel<T> {
    /// Removes every pending timer, in no particular order.
    ///
    /// A timer leaves when the iterator yields it. Dropping the iterator drops the rest, up to one
    /// whose drop panics. Takes time for every timer that there is room for.
    pub fn drain(&mut self) -> Drain<'_, T> {
        Drain { keys: &mut self.keys, lists: &mut self.lists, occupied: None, cell: 0 }
    }

    /// Drops every pending timer, up to one whose drop panics. Their keys go stale; time and memory
    /// stay. Takes time for every timer that there is room for.
    pub fn clear(&mut self) {
        drop(self.drain());
    }
}

// === impl Drain ===

impl<T> Drain<'_, T> {
    /// Takes out the timer of `key`, which is pending.
    fn take(&mut self, key: Key) -> Option<(Tick, T)> {
        let (entry, left) = self.lists.take_out(self.keys, key)?;
        self.keys.take(key);
        if let Some(list) = left.filter(|list| self.lists.leave_block(*list)) {
            if let Some(occupied) = &mut self.occupied {
                occupied.clear(list as usize);
            }
        }
        Some((entry.deadline, entry.payload))
    }
}

impl<T> Iterator for Drain<'_, T> {
    type Item = (Tick, T);

    fn next(&mut self) -> Option<(Tick, T)> {
        while (self.cell as usize) < self.lists.end() {
            if let Some(entry) = self.lists.get(self.cell) {
                // What moves into the cell is met next.
                return self.take(entry.key);
            }
            self.cell += 1;
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.keys.len(), Some(self.keys.len()))
    }
}

impl<T> ExactSizeIterator for Drain<'_, T> {}

impl<T> FusedIterator for Drain<'_, T> {}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.keys.len()).finish_non_exhaustive()
    }
}
