//! A lock that ThreadSanitizer can follow, for builds with `--cfg tsan`.
//!
//! The standard library is compiled without instrumentation. So ThreadSanitizer does not see a
//! thread enter a standard lock after it had to wait, and reports a race on all that the lock
//! protects. The fast path, where nobody waits, is inlined into our code and is seen: this lock
//! uses no other.

use std::sync::{LockResult, MutexGuard, TryLockError, TryLockResult};
use std::thread;

/// The standard mutex, which never sleeps here.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Takes the lock; tries until no other thread holds it.
    ///
    /// # Errors
    /// A thread panicked while it held the lock; the guard is in the error.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }

    /// Takes the lock if no other thread holds it.
    ///
    /// # Errors
    /// Another thread holds the lock, or panicked while it held the lock.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    /// The content, for the exclusive owner of the lock.
    ///
    /// # Errors
    /// A thread panicked while it held the lock; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// The content; the caller owns the lock, so no other thread uses it.
    ///
    /// # Errors
    /// A thread panicked while it held the lock; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}
