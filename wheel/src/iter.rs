//! Looking at every timer of a wheel.
//!
//! *Tested by*: `wheel/tests/both.rs`, `wheel/tests/oracle.rs`.

use core::fmt;
use core::iter::FusedIterator;
use core::slice;

use super::entry::Entry;
use super::hashed::HashedWheel;
use super::key::Key;
use super::lists::Lists;
use super::wheel::Wheel;
use crate::Tick;

/// The iterator of [`Wheel::iter`] and [`HashedWheel::iter`]: keys, deadlines and payloads.
pub struct Iter<'a, T> {
    cells: slice::Iter<'a, Option<Entry<T>>>,
    /// Timers that it has not yielded yet.
    left: usize,
}

// === impl Wheel, impl HashedWheel ===

macro_rules! iter {
    ($wheel:ident, $($lists:tt)+) => {
        impl<T> $wheel<T> {
            /// Every pending timer with its key and its deadline, in no particular order. Takes
            /// time for every timer that there is room for.
            pub fn iter(&self) -> Iter<'_, T> {
                Iter::new(&self.$($lists)+, self.len())
            }
        }

        impl<'a, T> IntoIterator for &'a $wheel<T> {
            type Item = (Key, Tick, &'a T);
            type IntoIter = Iter<'a, T>;

            fn into_iter(self) -> Iter<'a, T> {
                self.iter()
            }
        }
    };
}

iter!(Wheel, rings.lists);
iter!(HashedWheel, lists);

// === impl Iter ===

impl<'a, T> Iter<'a, T> {
    fn new(lists: &'a Lists<T>, left: usize) -> Iter<'a, T> {
        Iter { cells: lists.cells.iter(), left }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (Key, Tick, &'a T);

    fn next(&mut self) -> Option<(Key, Tick, &'a T)> {
        // Cells behind the last timer are not looked at.
        self.left = self.left.checked_sub(1)?;
        let Entry { key, deadline, payload } = self.cells.find_map(Option::as_ref)?;
        Some((*key, *deadline, payload))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<T> FusedIterator for Iter<'_, T> {}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter { cells: self.cells.clone(), left: self.left }
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.left).finish_non_exhaustive()
    }
}
