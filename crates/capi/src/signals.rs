//! What a child of a callback blocks of the signals.
//!
//! The engine's threads block signals, which are for the program's threads. A process that one of
//! them forks would go on to block them, and so would the program that it then executes. So the
//! child gets the mask of the thread that made the engine.
//!
//! *Owner*: each thread has its own. The child of a fork has one thread.
//!
//! *Tested by*: `tests/c/environment.c`.

use std::cell::Cell;
use std::sync::Once;
use std::{mem, ptr};

thread_local! {
    /// Of a thread of an engine's.
    static OF_CHILDREN: Cell<Option<libc::sigset_t>> = const { Cell::new(None) };
}

/// The signals that a thread blocks.
#[derive(Clone, Copy)]
pub(crate) struct Mask(libc::sigset_t);

// === impl Mask ===

impl Mask {
    /// That of the calling thread.
    pub(crate) fn current() -> Mask {
        static HANDLER: Once = Once::new();
        // SAFETY: the handler only reads a thread-local without a destructor, and sets a mask.
        HANDLER.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(give_to_child)) });
        // SAFETY: a set is numbers.
        let mut mask: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: it writes the set, and changes nothing.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut mask) };
        Mask(mask)
    }

    /// From now on, children of the calling thread have this mask.
    pub(crate) fn is_of_children(self) {
        OF_CHILDREN.set(Some(self.0));
    }
}

/// In the child, on the thread that has forked.
extern "C" fn give_to_child() {
    if let Ok(Some(mask)) = OF_CHILDREN.try_with(Cell::get) {
        // SAFETY: it reads a set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) };
    }
}
