//! Identifies the process, to notice a fork. Threads exist only in the process that started them.
//! In a child of it, waiting for one of them never ends, and one of them may have held a lock at
//! the fork.
//!
//! *Owner*: none. Any thread may call this.
//!
//! *Tested by*: `tests/alone/fork/main.rs`.

use crate::sync::{Counter, Ordering};

use super::register_fork_handler;

/// A process, as remembered by a value that has threads in it.
///
/// The number is that of the forks between it and the first process that called
/// [`Process::current`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

/// A handler that is called in each child process after a fork.
#[derive(Debug)]
pub struct ForkHandler {
    handler: extern "C" fn(),
    is_registered: Counter,
}

static FORKS: Counter = Counter::new(0);

// === impl Process ===

impl Process {
    /// Returns the calling process. From now on its forks are counted.
    pub fn current() -> Process {
        static COUNT: ForkHandler = ForkHandler::new(count);
        COUNT.register();
        Process::now()
    }

    /// Returns `true` in the process itself, `false` in a child of it.
    pub fn is_current(self) -> bool {
        self == Process::now()
    }

    fn now() -> Process {
        // ORDER: Relaxed - it is written before a child has a second thread.
        Process(FORKS.load(Ordering::Relaxed))
    }
}

extern "C" fn count() {
    // ORDER: Relaxed - a child has one thread yet.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

// === impl ForkHandler ===

impl ForkHandler {
    /// The handler may run twice for a fork, and must be async-signal-safe.
    pub const fn new(handler: extern "C" fn()) -> ForkHandler {
        ForkHandler { handler, is_registered: Counter::new(0) }
    }

    /// From now on each child calls the handler before `fork` returns there. Threads that make the
    /// first call at the same time may each register it. If the system has no memory for that, the
    /// next call tries again.
    pub fn register(&self) {
        // ORDER: Relaxed - a flag that orders nothing: the system has a lock of its own.
        if self.is_registered.load(Ordering::Relaxed) == 0 && register_fork_handler(self.handler) {
            // ORDER: Relaxed - a flag that orders nothing.
            self.is_registered.store(1, Ordering::Relaxed);
        }
    }
}
