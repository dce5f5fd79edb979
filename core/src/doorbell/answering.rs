//! Which thread a doorbell wakes: one of a list, until another one takes the lead of the group.
//!
//! *Owner*: the thread that leads the group enters itself; any thread looks.
//!
//! *Orderings*: DOORBELL. A thread that takes the lead says so first, then publishes its sleep,
//! fences, and looks for work. A thread that rings fences after it has left its work. So it sees
//! the new thread, or the new thread sees the work.
//!
//! *Tested by*: `loom-tests/tests/takeover.rs`.

use crate::sync::{Arc, AtomicUsize, OnceLock, Ordering, Thread};

/// The threads of an engine that may serve its shards. Each place is filled when its thread starts.
pub type Threads = Arc<[OnceLock<Thread>]>;

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
        // ORDER(DOORBELL): Relaxed - the thread has filled its place before this, and fences after
        // it, with what it publishes.
        self.number.store(number, Ordering::Relaxed);
    }

    /// Ends the present sleep of the thread that answers, or its next one. The caller has fenced
    /// after what it wakes the thread for.
    pub(super) fn unpark(&self) {
        // ORDER(DOORBELL): Relaxed - see the header. (Who finds an empty place has fenced before
        // the thread: that one sees the work.)
        if let Some(thread) = self.threads[self.number.load(Ordering::Relaxed)].get() {
            thread.unpark();
        }
    }
}

debug! { impl[] Answering[] { threads } }
