//! Reading a wheel: by key, and all of it.
//!
//! Both wheels keep timers and keys alike, so what reads them is written once.
//!
//! *Tested by*: `tests/both.rs`, `tests/oracle.rs`.

use core::fmt;
use core::iter::FusedIterator;
use core::slice;

use crate::Tick;

use super::entry::Entry;
use super::hashed::HashedWheel;
use super::key::Key;
use super::wheel::Wheel;

/// The iterator of [`Wheel::iter`] and [`HashedWheel::iter`]: keys, deadlines and payloads.
pub struct Iter<'a, T> {
    cells: slice::Iter<'a, Option<Entry<T>>>,
    /// Timers that it has not yielded yet.
    left: usize,
}

// === impl Wheel, impl HashedWheel ===

macro_rules! view {
    ($wheel:ident, $($lists:tt)+) => {
        impl<T> $wheel<T> {
            /// The payload of the timer that `key` names, while that is pending. Takes constant
            /// time.
            pub fn get(&self, key: Key) -> Option<&T> {
                self.$($lists)+.find(&self.keys, key).map(|entry| &entry.payload)
            }

            /// The payload of the timer that `key` names, while that is pending. Takes constant
            /// time.
            pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
                self.$($lists)+.find_mut(&self.keys, key).map(|entry| &mut entry.payload)
            }

            /// The deadline of the timer that `key` names, as it was given, while that is pending.
            /// Takes constant time.
            pub fn deadline(&self, key: Key) -> Option<Tick> {
                self.$($lists)+.find(&self.keys, key).map(|entry| entry.deadline)
            }

            /// Whether the timer that `key` names is pending. Takes constant time.
            pub fn contains(&self, key: Key) -> bool {
                self.$($lists)+.find(&self.keys, key).is_some()
            }

            /// The number of pending timers, including those for [`Tick::NEVER`]. Takes constant
            /// time.
            #[inline]
            pub const fn len(&self) -> usize {
                self.keys.len()
            }

            /// Whether no timer is pending. Takes constant time.
            #[inline]
            pub const fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The time that the wheel has reached: the latest that it was told, or its start.
            /// While `pop_due` has timers left, the time at which the last one was due.
            pub const fn now(&self) -> Tick {
                self.now
            }

            /// Every pending timer with its key and its deadline, in no particular order. Takes
            /// time for every timer that there is room for.
            pub fn iter(&self) -> Iter<'_, T> {
                Iter { cells: self.$($lists)+.cells.iter(), left: self.len() }
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

view!(Wheel, rings.lists);
view!(HashedWheel, lists);

// === impl Iter ===

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
