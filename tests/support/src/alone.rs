//! Tests that count what lives, one at a time.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::counting::free_what_waits_for_readers;

thread_local! {
    /// The first thread-local of its thread, so the last that is dropped: after those in which the
    /// thread keeps parts of engines and of the epoch.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// That the calling thread's test is the only one that runs.
#[must_use]
pub struct Alone(());

/// Only one of these tests at a time, until its thread has ended: what lives is counted over all
/// threads, and a thread gives up what it keeps of an engine while it ends. What the tests before
/// left to the epoch is gone when the next one begins. To be called first.
pub fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    HELD.with_borrow_mut(|held| {
        // A harness without threads of its own runs all tests on one.
        held.get_or_insert_with(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
    });
    free_what_waits_for_readers();
    Alone(())
}
