//! Waiting, under a lock, until another thread says that something has changed there.

use std::time::Instant;

use super::{Condvar, Mutex, MutexGuard};

/// Gives the lock up, sleeps until `bell` is rung, and takes the lock again. It may come back for
/// no reason: whoever calls this looks at what it waits for, and waits again.
pub fn wait<'a, T>(
    bell: &Condvar,
    lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    wait_until(bell, lock, guard, None)
}

/// As [`wait`], until `deadline` at most. The checkers have no time: there it is [`wait`].
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

/// ThreadSanitizer does not see how a standard condition takes its lock again (see `tsan`), so
/// here a waiter looks again every now and then and leaves the bell alone.
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
