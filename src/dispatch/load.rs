//! What is handed over to a pool: payloads that may be taken under a lock.
//!
//! *Invariant*: taking one through [`Quietly`] calls no foreign code. Who is told of slow payloads
//! is told between two pushes.

use std::{fmt, option};

use super::dues::Dues;
use super::{Batch, Due};

/// Payloads that are handed over, one by one or several at once.
pub(super) trait Load: ExactSizeIterator {
    /// The next payload; calls nobody.
    fn next_quietly(&mut self) -> Option<Self::Item>;
    /// From here on the time is that of the payload that comes next. May tell who wants to know
    /// that the last was slow.
    fn begin_lap(&mut self);
}

/// A load from which payloads are taken quietly.
pub(super) struct Quietly<'a, L>(pub(super) &'a mut L);

impl<T> Load for Batch<'_, T> {
    fn next_quietly(&mut self) -> Option<T> {
        self.pop_quietly().map(|(_, payload)| payload)
    }

    fn begin_lap(&mut self) {
        Batch::begin_lap(self);
    }
}

impl<T> Load for Dues<'_, T> {
    fn next_quietly(&mut self) -> Option<Due<T>> {
        let (tick, payload) = self.0.pop_quietly()?;
        Some(self.0.due(tick, payload))
    }

    fn begin_lap(&mut self) {
        self.0.begin_lap();
    }
}

impl<T> Load for option::IntoIter<T> {
    fn next_quietly(&mut self) -> Option<T> {
        self.next()
    }

    fn begin_lap(&mut self) {}
}

// === impl Quietly ===

impl<L: Load> Iterator for Quietly<'_, L> {
    type Item = L::Item;

    fn next(&mut self) -> Option<L::Item> {
        self.0.next_quietly()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<L: Load> ExactSizeIterator for Quietly<'_, L> {}

impl<L> fmt::Debug for Quietly<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quietly").finish_non_exhaustive()
    }
}
