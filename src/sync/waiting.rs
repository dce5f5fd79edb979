//! Waiting, under a lock, until another thread says that something has changed there.

use super::{Condvar, Mutex, MutexGuard};

/// Gives the lock up, sleeps until `bell` is rung, and takes the lock again. It may come back for
/// no reason: whoever calls this looks at what it waits for, and waits again.
#[cfg(not(tsan))]
pub fn wait<'a, T>(
    bell: &Condvar,
    _lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    bell.wait(guard).expect("nothing panics under this lock")
}

/// ThreadSanitizer does not see how a standard condition takes its lock again (see `watched`), so
/// here a waiter looks again every now and then and leaves the bell alone.
#[cfg(tsan)]
pub fn wait<'a, T>(
    _bell: &Condvar,
    lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    drop(guard);
    super::thread::sleep(std::time::Duration::from_micros(100));
    lock.lock().expect("nothing panics under this lock")
}
