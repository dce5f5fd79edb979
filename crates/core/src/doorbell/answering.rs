//! Which thread a doorbell wakes: one of a list, until another one takes the lead of the group.
//!
//! *Owner*: the thread that leads the group enters itself; any thread looks.
//!
//! *Orderings*: DOORBELL. A thread that takes the lead says so first, then publishes its sleep,
//! fences, and looks for work. A thread that rings fences after it has left its work. So it sees
//! the new thread, or the new thread sees the work.
//!
//! *Tested by*: `loom-tests/tests/takeover.rs`.

use std::time::Duration;

use crate::sync::{Arc, AtomicUsize, Ordering};

use super::Parker;

/// Where the threads of an engine sleep, each in the place of its number. A ring that comes before
/// the thread waits for it there.
pub type Threads = Arc<[Parker]>;

/// The thread that answers a bell, once it is known.
pub struct Answering {
    threads: Threads,
    number: AtomicUsize,
}

// === impl Answering ===

impl Answering {
    /// Thread `number` of the list answers.
    pub fn new(threads: &Threads, number: usize) -> Answering {
        Answering { threads: threads.clone(), number: AtomicUsize::new(number) }
    }

    /// Thread `number` answers from now on.
    pub(super) fn move_to(&self, number: usize) {
        // ORDER(DOORBELL): Relaxed - the thread fences after this, with what it publishes.
        self.number.store(number, Ordering::Relaxed);
    }

    /// Ends the present sleep of the thread that answers, or its next one. The caller has fenced
    /// after what it wakes the thread for.
    pub(super) fn ring(&self) {
        self.parker().ring();
    }

    /// The thread that answers sleeps until rung or until `timeout` has passed.
    pub(super) fn sleep(&self, timeout: Option<Duration>) {
        self.parker().sleep(timeout);
    }

    fn parker(&self) -> &Parker {
        // ORDER(DOORBELL): Relaxed - see the header. The thread that sleeps has written it, and
        // nobody takes the lead from it meanwhile.
        &self.threads[self.number.load(Ordering::Relaxed)]
    }
}

debug! { impl[] Answering[] { threads } }
