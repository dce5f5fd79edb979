//! The primitives of the model checker.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};

pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use loom::sync::{Condvar, Mutex, MutexGuard};
/// Statics that live for an iteration of a model, and values of its threads.
#[cfg(crossbeam_loom)]
pub use loom::{lazy_static, thread_local as modelled_local};
pub use thread::{JoinHandle, Thread};

/// Loom's threads, with a way to park of their own: loom's `unpark` also lets a thread go on that
/// waits for a lock, and forgets that it was unparked.
pub mod thread {
    use std::cell::RefCell;
    use std::mem;
    use std::sync::Arc;

    use loom::sync::{Condvar, Mutex};
    pub use loom::thread::yield_now;

    loom::thread_local! {
        static SELF: RefCell<Option<Thread>> = RefCell::new(None);
    }

    /// A thread, to be unparked.
    #[derive(Clone, Debug)]
    pub struct Thread {
        parking: Arc<(Mutex<bool>, Condvar)>,
    }

    /// A thread, to be waited for.
    #[derive(Debug)]
    pub struct JoinHandle<T> {
        inner: loom::thread::JoinHandle<T>,
        thread: Thread,
    }

    /// Begins a thread.
    pub fn spawn<T: 'static>(f: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
        let thread = Thread { parking: Arc::new((Mutex::new(false), Condvar::new())) };
        let itself = thread.clone();
        let inner = loom::thread::spawn(move || {
            SELF.with(|place| *place.borrow_mut() = Some(itself));
            f()
        });
        JoinHandle { inner, thread }
    }

    /// Sleeps until this thread is unparked, or was before.
    pub(super) fn park() {
        let itself = SELF.with(|place| place.borrow().clone());
        let itself = itself.expect("the first thread of a model does not park");
        let (is_unparked, bell) = &*itself.parking;
        let mut guard = is_unparked.lock().expect("nothing panics under this lock");
        while !mem::take(&mut *guard) {
            guard = bell.wait(guard).expect("nothing panics under this lock");
        }
    }

    impl Thread {
        /// Ends the thread's sleep, or the next one.
        pub fn unpark(&self) {
            let (is_unparked, bell) = &*self.parking;
            *is_unparked.lock().expect("nothing panics under this lock") = true;
            bell.notify_one();
        }
    }

    impl<T> JoinHandle<T> {
        /// The thread.
        pub fn thread(&self) -> &Thread {
            &self.thread
        }

        /// Waits for the thread's end.
        ///
        /// # Errors
        /// It panicked.
        pub fn join(self) -> std::thread::Result<T> {
            self.inner.join()
        }
    }
}

/// Loom's cell, which reports accesses that race.
#[derive(Debug)]
pub struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// Lends the content to a reader; loom reports a writer beside it.
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        self.0.with(f)
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

// SAFETY: all threads of a model are one thread of the system, and none gives way to another in
// the midst of a cell of the standard library's; the checker's own cell is for sharing.
unsafe impl Sync for Life {}

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

/// A value per thread that needs no destructor.
macro_rules! per_thread {
    ($(#[$doc:meta])* static $name:ident: $type:ty = $init:expr;) => {
        loom::thread_local! {
            $(#[$doc])*
            static $name: $type = $init;
        }
    };
}
pub(crate) use per_thread;

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

/// Drops things that a [`Life`] each belongs to, which ends as they are dropped, and frees them.
pub fn free_slice<T>(values: Box<[T]>) {
    let layout = Layout::for_value(&*values);
    let values = Box::into_raw(values);
    // SAFETY: it came from a box, whose content is dropped here, once.
    unsafe { values.drop_in_place() };
    FREED.with_borrow_mut(|freed| freed.push((values.cast::<u8>(), layout)));
}

/// Gives back what was freed in an iteration of a model, once the iteration is over.
pub fn end_iteration() {
    for (memory, layout) in FREED.take() {
        // SAFETY: it came from a box of this layout, and what could reach it is over.
        unsafe { std::alloc::dealloc(memory, layout) };
    }
}
