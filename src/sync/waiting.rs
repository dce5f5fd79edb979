//! Waiting, under a lock, until another thread reports a change.

use std::time::Instant;

use super::{Condvar, Mutex, MutexGuard};

/// Releases the lock, sleeps until `bell` is notified, and takes the lock again. It may return for
/// no reason: the caller checks its condition, and waits again.
pub fn wait<'a, T>(
    bell: &Condvar,
    lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    wait_until(bell, lock, guard, None)
}

/// As [`wait`], until `deadline` at most. The checkers have no time: under them this is [`wait`].
#[cfg(not(tsan))]
pub fn wait_until<'a, T>(
    bell: &Condvar,
    _lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> MutexGuard<'a, T> {
    const WHOLE: &str = "nothing panics under this lock";
    match deadline {
        #[cfg(not(any(loom, shuttle)))]
        Some(deadline) => {
            let limit = deadline.saturating_duration_since(Instant::now());
            bell.wait_timeout(guard, limit).expect(WHOLE).0
        }
        _ => bell.wait(guard).expect(WHOLE),
    }
}

/// ThreadSanitizer does not see how a standard condition variable takes its lock again (see
/// `tsan`), so here a waiter looks again every 100 us and ignores the bell.
#[cfg(tsan)]
pub fn wait_until<'a, T>(
    _bell: &Condvar,
    lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _deadline: Option<Instant>,
) -> MutexGuard<'a, T> {
    drop(guard);
    super::thread::sleep(std::time::Duration::from_micros(100));
    lock.lock().expect("nothing panics under this lock")
}
