//! The primitives of the model checker.

use std::alloc::Layout;
use std::cell::RefCell;

pub use loom::cell::UnsafeCell;
pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use loom::sync::{Condvar, Mutex, MutexGuard};
/// A thread-local value that needs no destructor.
pub use loom::thread_local as per_thread;
/// Statics that live for one iteration of a model, and locals of the model's threads.
#[cfg(crossbeam_loom)]
pub use loom::{lazy_static, thread_local as modelled_local};
pub use thread::{JoinHandle, Thread};

/// Loom's threads with a `park` of our own: loom's `unpark` also wakes a thread that waits for a
/// lock, and then forgets that the thread was unparked.
pub mod thread {
    use std::cell::RefCell;
    use std::mem;
    use std::sync::Arc;

    use loom::sync::{Condvar, Mutex};
    pub use loom::thread::yield_now;

    loom::thread_local! {
        static SELF: RefCell<Option<Thread>> = RefCell::new(None);
    }

    /// A thread that can be unparked.
    #[derive(Clone, Debug)]
    pub struct Thread {
        parking: Arc<(Mutex<bool>, Condvar)>,
    }

    /// A thread that can be joined.
    #[derive(Debug)]
    pub struct JoinHandle<T> {
        inner: loom::thread::JoinHandle<T>,
        thread: Thread,
    }

    /// Starts a thread.
    pub fn spawn<T: 'static>(f: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
        spawn_boxed(Box::new(f))
    }

    /// The same for any closure: loom's thread is compiled once for each type of result.
    fn spawn_boxed<T: 'static>(f: Box<dyn FnOnce() -> T>) -> JoinHandle<T> {
        let thread = Thread::new();
        let itself = thread.clone();
        let inner = loom::thread::spawn(move || {
            SELF.with(|place| *place.borrow_mut() = Some(itself));
            f()
        });
        JoinHandle { inner, thread }
    }

    /// The calling thread, which can be unparked.
    pub fn current() -> Thread {
        SELF.with(|place| place.borrow_mut().get_or_insert_with(Thread::new).clone())
    }

    /// Sleeps until this thread is unparked. Returns at once if it was unparked before.
    pub(super) fn park() {
        let itself = current();
        let (is_unparked, bell) = &*itself.parking;
        let mut guard = is_unparked.lock().expect("nothing panics under this lock");
        while !mem::take(&mut *guard) {
            guard = bell.wait(guard).expect("nothing panics under this lock");
        }
    }

    impl Thread {
        fn new() -> Thread {
            Thread { parking: Arc::new((Mutex::new(false), Condvar::new())) }
        }

        /// A number that no other thread of the execution has.
        pub fn id(&self) -> usize {
            Arc::as_ptr(&self.parking).addr()
        }

        /// Ends the thread's present sleep, or else its next one.
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

        /// Waits for the thread to end.
        ///
        /// # Errors
        /// The thread panicked.
        pub fn join(self) -> std::thread::Result<T> {
            self.inner.join()
        }
    }
}

/// Sleeps until unparked. Loom has no time: a timeout is a sleep for ever, so that a model
/// which needs one to make progress is reported as a deadlock (a lost wake-up).
pub fn park(_timeout: Option<std::time::Duration>) {
    thread::park();
}

/// Watches memory that is freed by hand. Reports a look at memory by a thread that does not see it
/// made, a look at freed memory, a free while another thread may still look, a second free, and
/// memory that is never freed.
#[derive(Debug)]
pub struct Life {
    looks: UnsafeCell<()>,
    /// Taken and dropped by `end`; otherwise the checker reports a leak.
    track: RefCell<Option<loom::alloc::Track<()>>>,
}

// SAFETY: all threads of a model are one thread of the system, and no thread yields to another
// inside a cell of the standard library; the checker's own cell may be shared.
unsafe impl Sync for Life {}

impl Life {
    /// Starts with the memory.
    pub fn begin() -> Life {
        let looks = UnsafeCell::new(());
        looks.with_mut(|_| ());
        Life { looks, track: RefCell::new(Some(loom::alloc::Track::new(()))) }
    }

    /// Notes that the memory is looked at.
    pub fn look(&self) {
        assert!(self.track.borrow().is_some(), "freed memory is looked at");
        self.looks.with(|_| ());
    }

    /// Notes that the memory is about to be freed.
    pub fn end(&self) {
        let track = self.track.take();
        assert!(track.is_some(), "memory is freed twice");
        self.looks.with_mut(|_| ());
    }
}

::std::thread_local! {
    /// Memory that was freed, kept until the end of the iteration: a late look finds its `Life`
    /// there, and not other data.
    static FREED: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// Frees a box whose `Life` has ended. Its content is not dropped.
pub fn free<T>(value: Box<T>) {
    // SAFETY: a box can be freed like this.
    unsafe { deallocate(Box::into_raw(value).cast(), Layout::new::<T>()) };
}

/// Frees memory whose `Life` has ended, at the end of the iteration.
///
/// # Safety
/// As of `std::alloc::dealloc`.
pub unsafe fn deallocate(memory: *mut u8, layout: Layout) {
    FREED.with_borrow_mut(|freed| freed.push((memory, layout)));
}

/// Drops and frees values that each own a [`Life`], which ends when they are dropped.
pub fn free_slice<T>(values: Box<[T]>) {
    let layout = Layout::for_value(&*values);
    let values = Box::into_raw(values);
    // SAFETY: it came from a box, whose content is dropped here, once.
    unsafe { values.drop_in_place() };
    FREED.with_borrow_mut(|freed| freed.push((values.cast::<u8>(), layout)));
}

/// Deallocates what was freed in an iteration of a model, once the iteration is over.
pub fn end_iteration() {
    for (memory, layout) in FREED.take() {
        // SAFETY: it came from a box of this layout, and everything that could reach it is gone.
        unsafe { std::alloc::dealloc(memory, layout) };
    }
}
