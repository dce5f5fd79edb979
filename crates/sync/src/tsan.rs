//! Locks that ThreadSanitizer can follow, for builds with `--cfg tsan`.
//!
//! The standard library is compiled without instrumentation. So ThreadSanitizer does not see a
//! thread enter a standard lock after it had to wait, nor the end of another thread's
//! initialization, and reports a race on all that the lock protects. The fast path of the standard
//! mutex, where nobody waits, is inlined into our code and is seen: these locks use no other.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, MutexGuard, PoisonError, TryLockError, TryLockResult};
use std::thread;

/// The standard mutex, which never sleeps here.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// As the standard one: a value that is written once.
#[derive(Debug)]
pub struct OnceLock<T> {
    is_set: AtomicBool,
    setting: Mutex<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the thread that sets it gives the value to other threads, and those share it.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

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

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    /// A lock without a value.
    pub const fn new() -> Self {
        let (is_set, setting) = (AtomicBool::new(false), Mutex::new(()));
        Self { is_set, setting, value: UnsafeCell::new(None) }
    }

    /// The value, if there is one.
    pub fn get(&self) -> Option<&T> {
        // ORDER: Acquire - pairs with the Release in `get_or_init`.
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: once it is set, nobody writes the value until the lock is dropped.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// Sets the value.
    ///
    /// # Errors
    /// There is one; returns the other.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().unwrap_or_else(|| unreachable!("it is called once")));
        value.map_or(Ok(()), Err)
    }

    /// The value, which `init` makes if there is none.
    pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let _setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.get().is_none() {
                let value = Some(init());
                // SAFETY: the lock is held, and nobody reads what is not set.
                unsafe { *self.value.get() = value };
                // ORDER: Release - pairs with the Acquire in `get`.
                self.is_set.store(true, Ordering::Release);
            }
        }
        self.get().unwrap_or_else(|| unreachable!("it is set"))
    }
}
