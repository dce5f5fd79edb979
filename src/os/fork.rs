//! Forks: a child process has the memory of its parent and of all its threads the one that forked.
//!
//! What waits for a thread that is not there waits for ever, and a lock may be held by one. So what
//! has threads remembers the process that it was made in, and in any other leaves them alone.
//!
//! The system tells of a fork by `fork(2)` as the C library makes it. Of one that goes past it (a
//! bare `clone`) nobody hears, and after `vfork` and `posix_spawn` nothing of ours runs.
//!
//! *Tested by*: `tests/fork.rs`.

use crate::sync::{Counter, Ordering};

/// A process, for whoever is of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Forks that lie between it and the first process that asked.
    forks: u64,
}

static FORKS: Counter = Counter::new(0);

// === impl Process ===

impl Process {
    /// The process that runs this. From now on its forks are counted.
    pub fn current() -> Process {
        static IS_COUNTED: Counter = Counter::new(0);
        ask_once(&IS_COUNTED, count);
        Process::now()
    }

    /// Whether this is the process that runs the call, and no child of it.
    pub fn is_current(self) -> bool {
        self == Process::now()
    }

    fn now() -> Process {
        // ORDER: Relaxed - it is written before a child has a second thread.
        Process { forks: FORKS.load(Ordering::Relaxed) }
    }
}

extern "C" fn count() {
    // ORDER: Relaxed - as in `now`.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has each child of this process call `handler` before `fork` returns there, once somebody has
/// asked for it. Of several who ask at the same time each may see to it, so the handler is to be
/// one that may run twice; and it may do what a signal handler may. Where the system has no memory
/// for that, the next call asks again.
pub fn ask_once(is_asked: &Counter, handler: extern "C" fn()) {
    // ORDER: Relaxed - a flag, and nothing is ordered by it: who sees it set may rely on the
    // system, which has its own lock.
    if is_asked.load(Ordering::Relaxed) == 0 && tell_of_forks(handler) {
        // ORDER: Relaxed - as above.
        is_asked.store(1, Ordering::Relaxed);
    }
}

#[cfg(unix)]
fn tell_of_forks(handler: extern "C" fn()) -> bool {
    // SAFETY: the handler is a function of this program and takes nothing.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
}

/// There are no forks.
#[cfg(not(unix))]
fn tell_of_forks(_handler: extern "C" fn()) -> bool {
    true
}
