//! Taking every timer out of a wheel.

use std::fmt;
use std::iter::FusedIterator;

use crate::time::Tick;

use super::wheel::Wheel;

/// What [`Wheel::drain`] returns: an iterator over deadlines and payloads.
///
/// ```
/// use tickless::local::{Drain, Wheel};
/// use tickless::Tick;
///
/// let mut wheel = Wheel::default();
/// wheel.insert(Tick::new(1), 'a');
/// wheel.insert(Tick::new(2), 'b');
/// let drain: Drain<'_, char> = wheel.drain();
/// assert_eq!(drain.len(), 2);
/// ```
pub struct Drain<'a, T> {
    wheel: &'a mut Wheel<T>,
    /// Cells before this one are vacant.
    cell: u32,
}

// === impl Wheel ===

impl<T> Wheel<T> {
    /// Takes every pending timer out, in no order.
    ///
    /// A timer leaves when the iterator yields it; dropping the iterator drops those that are
    /// left. Takes time for every timer that there is room for.
    ///
    /// ```
    /// use tickless::local::Wheel;
    /// use tickless::Tick;
    ///
    /// let mut wheel = Wheel::default();
    /// wheel.insert(Tick::new(7), "tea");
    /// let left: Vec<_> = wheel.drain().collect();
    /// assert_eq!(left, [(Tick::new(7), "tea")]);
    /// assert!(wheel.is_empty());
    /// ```
    pub fn drain(&mut self) -> Drain<'_, T> {
        Drain::new(self)
    }

    /// Drops every pending timer. Keys go stale, time and memory stay.
    ///
    /// ```
    /// use tickless::local::Wheel;
    /// use tickless::Tick;
    ///
    /// let mut wheel = Wheel::default();
    /// let key = wheel.insert(Tick::new(7), "tea");
    /// wheel.clear();
    /// assert!(wheel.is_empty() && !wheel.contains(key));
    /// ```
    pub fn clear(&mut self) {
        drop(self.drain());
    }
}

// === impl Drain ===

impl<'a, T> Drain<'a, T> {
    fn new(wheel: &'a mut Wheel<T>) -> Drain<'a, T> {
        Drain { wheel, cell: 0 }
    }
}

impl<T> Iterator for Drain<'_, T> {
    type Item = (Tick, T);

    fn next(&mut self) -> Option<(Tick, T)> {
        while (self.cell as usize) < self.wheel.rings.lists.end() {
            if let Some(entry) = self.wheel.rings.lists.get(self.cell) {
                // What moves into the cell is met next.
                let (key, deadline) = (entry.key, entry.deadline);
                return self.wheel.cancel(key).map(|payload| (deadline, payload));
            }
            self.cell += 1;
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.wheel.len(), Some(self.wheel.len()))
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
        f.debug_struct("Drain").field("left", &self.wheel.len()).finish_non_exhaustive()
    }
}
