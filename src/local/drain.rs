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
    /// Slots before this one are vacant.
    index: u32,
}

// === impl Drain ===

impl<'a, T> Drain<'a, T> {
    pub(super) fn new(wheel: &'a mut Wheel<T>) -> Drain<'a, T> {
        Drain { wheel, index: 0 }
    }
}

impl<T> Iterator for Drain<'_, T> {
    type Item = (Tick, T);

    fn next(&mut self) -> Option<(Tick, T)> {
        while (self.index as usize) < self.wheel.slab.end() {
            let key = self.wheel.slab.key(self.index);
            self.index += 1;
            if let Some(key) = key {
                let deadline = self.wheel.deadline(key)?;
                return self.wheel.cancel(key).map(|payload| (deadline, payload));
            }
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
