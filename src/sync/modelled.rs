//! The primitives of the model checker.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};

pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use loom::sync::{Condvar, Mutex, MutexGuard};
pub use loom::thread::{self, JoinHandle, Thread};
/// Statics that live for an iteration of a model, and values of its threads.
#[cfg(crossbeam_loom)]
pub use loom::{lazy_static, thread_local as modelled_local};

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

/// Watches memory that is freed by hand: reports who looks at it when it is gone, who frees it
/// while somebody may still look or for the second time, and who never frees it.
#[derive(Debug)]
pub struct Life {
    looks: loom::cell::UnsafeCell<()>,
    /// Dropped in time, or the checker reports a leak.
    track: RefCell<Option<loom::alloc::Track<()>>>,
    ended: Cell<bool>,
}

impl Life {
    /// Begins with the memory.
    pub fn begin() -> Life {
        Life {
            looks: loom::cell::UnsafeCell::new(()),
            track: RefCell::new(Some(loom::alloc::Track::new(()))),
            ended: Cell::new(false),
        }
    }

    /// The memory is looked at.
    pub fn look(&self) {
        assert!(!self.ended.get(), "freed memory is looked at");
        self.looks.with(|_| ());
    }

    /// The memory is about to be freed.
    pub fn end(&self) {
        assert!(!self.ended.replace(true), "memory is freed twice");
        self.looks.with_mut(|_| ());
        drop(self.track.take());
    }
}

thread_local! {
    /// What was freed and waits for the end of the iteration, so that a late look finds its
    /// `Life` there and not somebody else's bytes.
    static FREED: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// Frees a box whose `Life` has ended. Its content is not dropped.
pub fn free<T>(value: Box<T>) {
    let memory = Box::into_raw(value).cast::<u8>();
    FREED.with_borrow_mut(|freed| freed.push((memory, Layout::new::<T>())));
}

/// Gives back what was freed in an iteration of a model, once the iteration is over.
pub fn end_iteration() {
    for (memory, layout) in FREED.take() {
        // SAFETY: it came from a box of this layout, and what could reach it is over.
        unsafe { std::alloc::dealloc(memory, layout) };
    }
}
