//! A batch as an iterator over payloads with their deadlines.

use std::fmt;

use super::{Batch, Due};

/// An iterator over the results of [`Batch::next_due`].
pub(super) struct DueItems<'a, T>(pub(super) Batch<'a, T>);

// === impl DueItems ===

impl<T> Iterator for DueItems<'_, T> {
    type Item = Due<T>;

    fn next(&mut self) -> Option<Due<T>> {
        self.0.next_due()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> fmt::Debug for DueItems<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DueItems").field(&self.0).finish()
    }
}
