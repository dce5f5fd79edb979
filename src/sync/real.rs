//! The primitives of a real program: the standard library's.

#[cfg(not(tsan))]
pub use std::sync::Mutex;
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Condvar, MutexGuard, mpsc};
pub use std::thread::{self, JoinHandle, Thread};

/// Sleeps until unparked or until `timeout` has passed; `None` is for ever.
pub fn park(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => thread::park_timeout(timeout),
        None => thread::park(),
    }
}
