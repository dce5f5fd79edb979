//! A timer as it lies in its bucket, and as it leaves.
//!
//! *Tested by*: the tests of its users.

use crate::Tick;

use super::key::Key;

/// A timer.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) deadline: Tick,
    pub(super) key: Key,
    pub(super) payload: T,
}

/// A timer that was taken out of the middle of a list, and the updates that this requires.
#[derive(Debug)]
pub(super) struct Removed<T> {
    pub(super) entry: Entry<T>,
    /// The timer that has moved into its place.
    pub(super) moved: Option<Key>,
    /// The list whose last block has lost its first timer by this: it is to be
    /// [left](super::lists::Lists::leave_block).
    pub(super) left: Option<u32>,
}
