//! Freezing a thread at whatever instruction it is: a signal's handler that does not return until
//! the thread is thawed.
//!
//! A thread is not frozen inside the allocator, where others would wait for it: that is not ours.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicI32, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

const FROZEN: u8 = b'f';
const MISSED: u8 = b'm';

/// The system's allocator, which knows who is inside.
pub(crate) struct Marking;

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Where a frozen thread says so, and where it waits: the ends of two pipes.
static SAYS: AtomicI32 = AtomicI32::new(-1);
static WAITS: AtomicI32 = AtomicI32::new(-1);

/// The means to freeze threads: one at a time in a process, see [`alone`].
pub(crate) struct Freezer {
    hears: libc::c_int,
    thaws: libc::c_int,
}

/// The right to have a freezer. It is waited for where nobody takes that for a test that hangs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn on_signal(_: libc::c_int) {
    let is_frozen = INSIDE.get() == 0;
    let mut byte = if is_frozen { FROZEN } else { MISSED };
    let (says, waits) = (SAYS.load(Ordering::SeqCst), WAITS.load(Ordering::SeqCst));
    // SAFETY: these may be called in a handler, and get a byte that lives. The thread that was
    // interrupted finds the error of its last call as it was.
    unsafe {
        let error = *libc::__errno_location();
        // The pipes of a test work; were they not to, it would wait in vain and say so.
        libc::write(says, (&raw const byte).cast(), 1);
        while is_frozen && libc::read(waits, (&raw mut byte).cast(), 1) < 0 {}
        *libc::__errno_location() = error;
    }
}

fn pipe() -> [libc::c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

// === impl Freezer ===

impl Freezer {
    /// Takes the signal.
    pub(crate) fn new() -> Freezer {
        let ([hears, says], [waits, thaws]) = (pipe(), pipe());
        SAYS.store(says, Ordering::SeqCst);
        WAITS.store(waits, Ordering::SeqCst);
        // SAFETY: all-zero is a valid action with an empty mask; the handler does what one may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGRTMIN(), &action, std::ptr::null_mut()), 0);
        }
        Freezer { hears, thaws }
    }

    /// Freezes a thread that is running, wherever it is now outside the allocator.
    pub(crate) fn freeze<T>(&self, thread: &JoinHandle<T>) {
        loop {
            // SAFETY: the thread was not joined.
            let sent = unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGRTMIN()) };
            assert_eq!(sent, 0);
            let mut byte = 0_u8;
            // SAFETY: the byte lives.
            let read = unsafe { libc::read(self.hears, (&raw mut byte).cast(), 1) };
            assert_eq!(read, 1);
            if byte == FROZEN {
                return;
            }
        }
    }

    /// Lets the frozen thread go on.
    pub(crate) fn thaw(&self) {
        let byte = FROZEN;
        // SAFETY: the byte lives.
        assert_eq!(unsafe { libc::write(self.thaws, (&raw const byte).cast(), 1) }, 1);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let ends = [self.hears, self.thaws, SAYS.swap(-1, Ordering::SeqCst)];
        for end in ends.into_iter().chain([WAITS.swap(-1, Ordering::SeqCst)]) {
            // SAFETY: it is ours, and nobody uses it any more.
            unsafe { libc::close(end) };
        }
    }
}

// === impl Marking ===

fn inside<R>(f: impl FnOnce() -> R) -> R {
    INSIDE.set(INSIDE.get() + 1);
    // The handler sees what stands in memory.
    compiler_fence(Ordering::SeqCst);
    let result = f();
    compiler_fence(Ordering::SeqCst);
    INSIDE.set(INSIDE.get() - 1);
    result
}

// SAFETY: everything is passed on to the system's allocator; marking allocates nothing.
unsafe impl GlobalAlloc for Marking {
    /// # Safety
    /// As the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on to the caller.
        inside(|| unsafe { System.alloc(layout) })
    }

    /// # Safety
    /// As the trait says.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        inside(|| unsafe { System.dealloc(block, layout) });
    }
}
