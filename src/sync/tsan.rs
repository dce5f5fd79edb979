//! A lock that ThreadSanitizer can follow, for builds with `--cfg tsan`.
//!
//! The standard library comes compiled without instrumentation, so a thread that had to wait for
//! a standard lock enters unseen, and all that the lock protects looks like a race. The short
//! way in, where nobody waits, is inlined into our code and is seen: this lock takes no other.

use std::sync::{LockResult, MutexGuard, TryLockError, TryLockResult};
use std::thread;

/// The standard mutex, entered without ever sleeping in it.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Enters, again and again until nobody else is inside.
    ///
    /// # Errors
    /// Somebody panicked inside; the guard is in the error.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }

    /// Enters if nobody else is inside.
    ///
    /// # Errors
    /// Somebody is inside, or panicked there.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    /// What is inside, for whoever has the lock alone.
    ///
    /// # Errors
    /// Somebody panicked inside; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// What is inside: whoever has the lock itself is alone with it.
    ///
    /// # Errors
    /// Somebody panicked inside; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}
