//! Timers that do not fire for now: all whose keys begin in a certain way.
//!
//! A timer that is paused is not taken into the window, and leaves it when it is due: it stays in
//! the store alone, however many there are. When a pause ends, the store is read anew. What is
//! about to begin, because a note says so already, begins.
//!
//! *Owner*: the list is under the service's lock. The store has it, or what instances share.
//!
//! *Tested by*: `tests/durable/looking.rs`, `tests/durable/postgres/looking.rs`,
//! `tests/durable/nats/letters.rs`.

use crate::error::{StoreError, StoreErrorKind};
use crate::record::{Key, Record};

/// How long the beginning of a key may be.
const MAX_BYTES: usize = 1000;

/// Whether one of these pauses is about this timer. A timer without a key is paused with all.
pub(super) fn is_paused(pauses: &[Key], record: &Record) -> bool {
    let is_about = |prefix: &Key| match &record.key {
        Some(key) => key.starts_with(prefix),
        None => prefix.is_empty(),
    };
    pauses.iter().any(is_about)
}

/// Whether a store can keep it.
pub(crate) fn fits(prefix: &[u8]) -> Result<(), StoreError> {
    if prefix.len() <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("what is paused is named by {MAX_BYTES} bytes at most");
    Err(StoreError::new(StoreErrorKind::TooLarge, message))
}
