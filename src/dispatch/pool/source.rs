//! The sources of a pool's payloads: a batch, with or without deadlines, or one payload.
//!
//! *Owner*: the thread that hands payloads over.
//!
//! *Invariant*: `pull` runs no code of the user, because it is called under the queue's lock.
//! `settle` reports slow tasks.
//!
//! *Tested by*: `loom-tests/tests/queue.rs` (the queue's side), `tests/dispatch_inside.rs`.

use crate::dispatch::due_items::DueItems;
use crate::dispatch::{Batch, Due};

use super::queue::Source;

// === impl Source ===

impl<T> Source for Batch<'_, T> {
    type Item = T;

    fn left(&self) -> usize {
        self.len()
    }

    fn pull(&mut self) -> Option<T> {
        self.pull_untold().map(|(_, payload)| payload)
    }

    fn settle(&mut self) {
        self.tell();
    }
}

impl<T> Source for DueItems<'_, T> {
    type Item = Due<T>;

    fn left(&self) -> usize {
        self.0.len()
    }

    fn pull(&mut self) -> Option<Due<T>> {
        let next = self.0.pull_untold()?;
        Some(self.0.due(next))
    }

    fn settle(&mut self) {
        self.0.tell();
    }
}

impl<T> Source for Option<T> {
    type Item = T;

    fn left(&self) -> usize {
        usize::from(self.is_some())
    }

    fn pull(&mut self) -> Option<T> {
        self.take()
    }
}
