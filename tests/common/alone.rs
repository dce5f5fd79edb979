//! Tests that count what lives, one at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::counting::free_what_waits_for_readers;

/// Only one of these tests at a time: what lives is counted over all threads. What the others left
/// to the epoch is gone when it begins, except for what their threads give up while they end.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    free_what_waits_for_readers();
    alone
}
