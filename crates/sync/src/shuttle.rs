//! The primitives of the random scheduler: at each access it may switch to another thread.
//!
//! All threads run on one thread of the system, one at a time, and memory is sequentially
//! consistent: only the model checker tests the orderings. The epoch crate is not instrumented
//! here. It takes all threads for one, under whose guards nothing is freed. That is safe, and
//! checks nothing about reclamation.

pub use shuttle::hint::spin_loop;
pub use shuttle::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub use shuttle::thread::{self, JoinHandle, Thread};
/// A thread-local value that needs no destructor.
pub use shuttle::thread_local as per_thread;

/// Sleeps until unparked. The scheduler has no time: a timeout is a sleep for ever, so that a
/// test which needs one to make progress is reported as a deadlock (a lost wake-up).
pub fn park(_timeout: Option<std::time::Duration>) {
    thread::park();
}
