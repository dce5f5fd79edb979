//! The primitives of a real program: the standard library's.

#[cfg(not(tsan))]
pub use std::sync::Mutex;
/// A number for whoever asks, on which no thread decides anything.
pub use std::sync::atomic::AtomicU64 as Counter;
/// Where to look first; as good wherever it points.
pub use std::sync::atomic::AtomicUsize as Hint;
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Arc, OnceLock, Weak, mpsc};
pub use std::thread::{self, JoinHandle, Thread};

/// `UnsafeCell` with the model checker's interface, so that both worlds share one body.
#[derive(Debug)]
#[repr(transparent)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Lends the content to a writer. Who may call it when is the owning type's business.
    #[inline]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Sleeps until unparked or until `timeout` has passed; `None` is for ever.
pub fn park(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => thread::park_timeout(timeout),
        None => thread::park(),
    }
}

/// Where the model checker watches memory that is freed by hand; nothing in a real program.
#[derive(Debug)]
pub struct Life;

impl Life {
    /// Begins with the memory.
    #[inline]
    pub const fn begin() -> Life {
        Life
    }

    /// The memory is looked at.
    #[inline]
    pub const fn look(&self) {}

    /// The memory is about to be freed.
    #[inline]
    pub const fn end(&self) {}
}

/// Frees a box whose [`Life`] has ended.
#[inline]
pub fn free<T>(value: Box<T>) {
    drop(value);
}
