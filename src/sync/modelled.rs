//! The primitives of the model checker.

pub use loom::sync::Mutex;
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use loom::thread::{self, Thread};
// Loom has no `Weak` and no `OnceLock`; what uses them is not part of any model's races.
pub use std::sync::{Arc, OnceLock, Weak};

/// Loom's cell, which reports accesses that race.
#[derive(Debug)]
pub struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// Lends the content to a writer; loom reports a second one.
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(f)
    }
}

/// Sleeps until unparked. Loom has no time: a timeout is a sleep for ever, so that a model
/// which needs one to make progress is reported as a deadlock (a lost wake-up).
pub fn park(_timeout: Option<std::time::Duration>) {
    thread::park();
}
