//! What an engine had pending when it ended, and nobody claims.
//!
//! *Invariant*: a payload whose drop panics takes no other with it, and no thread: what is dropped
//! while a panic is under way must not panic.
//!
//! *Tested by*: `tests/faults.rs`.

use std::fmt;

use crate::dispatch::contained;

/// Payloads that are dropped one by one, each panic contained.
pub(super) struct Leftover<T>(Vec<T>);

// === impl Leftover ===

impl<T> Leftover<T> {
    pub(super) fn new(payloads: Vec<T>) -> Leftover<T> {
        Leftover(payloads)
    }
}

impl<T> Drop for Leftover<T> {
    fn drop(&mut self) {
        for payload in self.0.drain(..) {
            contained(|| drop(payload));
        }
    }
}

impl<T> fmt::Debug for Leftover<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leftover").field("len", &self.0.len()).finish()
    }
}
