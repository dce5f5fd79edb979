//! A process, as something to remember: what has threads has them in the process that made it. In a
//! child of that, whoever waits for one of them waits for ever, and a lock may be held by one.
//!
//! *Owner*: anyone asks.
//!
//! *Tested by*: `tests/fork.rs`.

use crate::os;
use crate::sync::{Counter, Ordering};

/// A process, for whoever has threads in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Forks that lie between it and the first process that asked.
    forks: u64,
}

/// What is told of forks.
#[derive(Debug)]
pub(crate) struct Told {
    handler: extern "C" fn(),
    is_told: Counter,
}

static FORKS: Counter = Counter::new(0);

// === impl Process ===

impl Process {
    /// The process that runs this. From now on its forks are counted.
    pub(crate) fn current() -> Process {
        static COUNT: Told = Told::new(count);
        COUNT.begin();
        Process::now()
    }

    /// Whether this is the process that runs the call, and no child of it.
    pub(crate) fn is_current(self) -> bool {
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

// === impl Told ===

impl Told {
    /// A handler that may run twice for a fork, and does only what a signal handler may.
    pub(crate) const fn new(handler: extern "C" fn()) -> Told {
        Told { handler, is_told: Counter::new(0) }
    }

    /// From now on each child calls the handler before `fork` returns there. Of several who are the
    /// first each may see to it. Where the system has no memory for that, the next call tries
    /// again.
    pub(crate) fn begin(&self) {
        // ORDER: Relaxed - a flag that orders nothing: the system has a lock of its own.
        if self.is_told.load(Ordering::Relaxed) == 0 && os::tell_of_forks(self.handler) {
            // ORDER: Relaxed - as above.
            self.is_told.store(1, Ordering::Relaxed);
        }
    }
}
