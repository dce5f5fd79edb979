//! The primitives of a program whose cache traffic is counted, for builds with `--cfg coherence`.
//!
//! They are the standard ones, and have their layout, so that what shares a cache line in a release
//! shares it here. Each access tells an [`AccessObserver`] which memory it reads or writes, and
//! which line of the source does so, before it happens. The observer may let other threads run
//! meanwhile: that is how `proofs/coherence` runs many cores, one at a time.
//!
//! Cells tell of their content as it is lent, and locks of what they protect when a guard is used.
//! Not observed: reference counts of `Arc`, and memory that is reached through neither.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{self, Ordering};
use std::sync::{
    LockResult, OnceLock, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult,
};
use std::time::Duration;

/// Who is told of accesses, on the thread that makes them.
pub trait AccessObserver: Sync {
    /// The thread is about to read, or else to write, so many bytes at `at`.
    fn access(&self, at: usize, bytes: usize, writes: bool, site: &'static Location<'static>);

    /// The thread has found the lock at `lock` taken. Returns `true` when it should try again, or
    /// `false` if the thread is not observed and may sleep.
    fn wait(&self, lock: usize) -> bool;

    /// The thread has released the lock at `lock`.
    fn release(&self, lock: usize);

    /// The thread waits for another one without a lock.
    fn spin(&self);
}

static OBSERVER: OnceLock<&'static dyn AccessObserver> = OnceLock::new();

/// Sets the observer of the process. The first one stays.
pub fn observe(observer: &'static dyn AccessObserver) {
    let _ = OBSERVER.set(observer);
}

/// The content of `value` is about to be read, or else to be written.
#[inline]
#[track_caller]
pub fn touch<T>(value: *const T, writes: bool) {
    touch_at(value, writes, Location::caller());
}

fn touch_at<T>(value: *const T, writes: bool, site: &'static Location<'static>) {
    if let Some(observer) = OBSERVER.get() {
        observer.access(value.addr(), size_of::<T>(), writes, site);
    }
}

/// As the standard hint; another thread may run meanwhile.
pub fn spin_loop() {
    OBSERVER.get().inspect(|observer| observer.spin());
    std::hint::spin_loop();
}

macro_rules! observed {
    ($(impl[$($of:ident)?] $Name:ident: $Value:ty, $init:ty { $($fetch:ident)* })*) => {$(
        /// The standard type; each access is observed.
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $Name$(<$of>)?(atomic::$Name$(<$of>)?);

        impl$(<$of>)? Default for $Name$(<$of>)? {
            fn default() -> Self {
                Self(Default::default())
            }
        }

        #[expect(missing_docs, reason = "as in the standard library")]
        impl$(<$of>)? $Name$(<$of>)? {
            pub const fn new(value: $init) -> Self {
                Self(atomic::$Name::new(value))
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $Value {
                touch(self, false);
                self.0.load(order)
            }

            #[track_caller]
            pub fn store(&self, value: $Value, order: Ordering) {
                touch(self, true);
                self.0.store(value, order);
            }

            #[track_caller]
            pub fn swap(&self, value: $Value, order: Ordering) -> $Value {
                touch(self, true);
                self.0.swap(value, order)
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                from: $Value,
                to: $Value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$Value, $Value> {
                // One that fails takes the line all the same.
                touch(self, true);
                self.0.compare_exchange(from, to, done, failed)
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                from: $Value,
                to: $Value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$Value, $Value> {
                touch(self, true);
                self.0.compare_exchange_weak(from, to, done, failed)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                done: Ordering,
                failed: Ordering,
                mut to: impl FnMut($Value) -> Option<$Value>,
            ) -> Result<$Value, $Value> {
                let mut before = self.load(failed);
                while let Some(after) = to(before) {
                    match self.compare_exchange_weak(before, after, done, failed) {
                        Ok(before) => return Ok(before),
                        Err(now) => before = now,
                    }
                }
                Err(before)
            }

            $(#[track_caller]
            pub fn $fetch(&self, value: $Value, order: Ordering) -> $Value {
                touch(self, true);
                self.0.$fetch(value, order)
            })*

            #[track_caller]
            pub fn get_mut(&mut self) -> &mut $Value {
                touch(self, true);
                self.0.get_mut()
            }

            pub fn into_inner(self) -> $Value {
                self.0.into_inner()
            }
        }
    )*};
}

observed! {
    impl[] AtomicBool: bool, bool { fetch_and fetch_or }
    impl[] AtomicU16: u16, u16 { fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min }
    impl[] AtomicU32: u32, u32 { fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min }
    impl[] AtomicU64: u64, u64 { fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min }
    impl[] AtomicUsize: usize, usize { fetch_add fetch_sub fetch_and fetch_or fetch_max fetch_min }
    impl[T] AtomicPtr: *mut T, *mut T { }
}

/// The standard mutex. Its word is observed, and so is what it protects.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// The guard of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    /// `None` once it is given up.
    guard: Option<std::sync::MutexGuard<'a, T>>,
    lock: &'a Mutex<T>,
    /// Where the lock was taken.
    site: &'static Location<'static>,
}

/// The standard condition variable. No observed thread waits for one.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

// === impl Mutex ===

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Takes the lock; waits while another thread holds it.
    ///
    /// # Errors
    /// A thread panicked while it held the lock; the guard is in the error.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => {}
            }
            if !OBSERVER.get().is_some_and(|observer| observer.wait(self.word().addr())) {
                return self.guarded(self.0.lock());
            }
        }
    }

    /// Takes the lock if no other thread holds it.
    ///
    /// # Errors
    /// Another thread holds the lock, or panicked while it held the lock.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        touch(self.word(), true);
        match self.0.try_lock() {
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => Ok(self.guarded(Err(poisoned))?),
            Ok(guard) => Ok(self.guarded(Ok(guard))?),
        }
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

    /// The word of the lock, which comes first.
    fn word(&self) -> *const u32 {
        ptr::from_ref(self).cast()
    }

    #[track_caller]
    fn guarded<'a>(
        &'a self,
        guard: LockResult<std::sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let site = Location::caller();
        let ours = |guard| MutexGuard { guard: Some(guard), lock: self, site };
        match guard {
            Ok(guard) => Ok(ours(guard)),
            Err(poisoned) => Err(PoisonError::new(ours(poisoned.into_inner()))),
        }
    }
}

// === impl MutexGuard ===

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[track_caller]
    fn deref(&self) -> &T {
        let content = self.guard.as_deref().expect("it is there until it is given up");
        touch(content, false);
        content
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        let content = self.guard.as_deref_mut().expect("it is there until it is given up");
        touch(content, true);
        content
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        touch_at(self.lock.word(), true, self.site);
        drop(guard);
        OBSERVER.get().inspect(|observer| observer.release(self.lock.word().addr()));
    }
}

// === impl Condvar ===

#[expect(missing_docs, reason = "as in the standard library")]
impl Condvar {
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    #[track_caller]
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let inner = guard.guard.take().expect("it is there until it is given up");
        guard.lock.guarded(self.0.wait(inner))
    }

    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let inner = guard.guard.take().expect("it is there until it is given up");
        let (lock, site) = (guard.lock, guard.site);
        let ours = |guard| MutexGuard { guard: Some(guard), lock, site };
        match self.0.wait_timeout(inner, limit) {
            Ok((inner, result)) => Ok((ours(inner), result)),
            Err(poisoned) => {
                let (inner, result) = poisoned.into_inner();
                Err(PoisonError::new((ours(inner), result)))
            }
        }
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
