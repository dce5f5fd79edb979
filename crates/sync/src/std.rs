//! The primitives of a real program: the standard library's.

// (The standard library's pages have links of their own.)
#[cfg(not(coherence))]
#[doc(hidden)]
pub use std::hint::spin_loop;
#[cfg(not(any(tsan, coherence)))]
pub use std::sync::Mutex;
#[cfg(not(coherence))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
#[doc(hidden)]
pub use std::sync::atomic::{Ordering, fence};
pub use std::sync::mpsc;
#[cfg(not(coherence))]
pub use std::sync::{Condvar, MutexGuard};
#[doc(hidden)]
pub use std::thread::{self, JoinHandle, Thread};

/// A thread-local value that needs no destructor.
#[doc(hidden)]
#[macro_export]
macro_rules! per_thread {
    ($(#[$doc:meta])* static $name:ident: $type:ty = $init:expr;) => {
        std::thread_local! {
            $(#[$doc])*
            static $name: $type = const { $init };
        }
    };
}

/// Sleeps until unparked or until `timeout` has passed; `None`: until unparked.
pub fn park(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => thread::park_timeout(timeout),
        None => thread::park(),
    }
}
