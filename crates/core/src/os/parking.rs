//! A word on which a thread sleeps, where the system is not asked for it: under the checkers, and
//! on systems other than Linux. The thread parks.
//!
//! The standard library's `unpark` has the gap that `doorbell/parker.rs` is about. For the checkers
//! it is one step after the word was changed.
//!
//! *Owner*: any thread sleeps, and any thread wakes. Each thread that ever slept here is woken,
//! also if it sleeps elsewhere by now: a sleep may end for no reason.

use std::time::Duration;

use crate::sync::{AtomicU32, GrowingList, Ordering, Thread, park, thread};

/// A word, and the threads that ever slept on it.
pub struct Futex {
    word: AtomicU32,
    sleepers: GrowingList<Thread>,
}

// === impl Futex ===

impl Futex {
    /// The word.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// The calling thread is about to sleep. To be called before the word says so: those who read
    /// that wake this thread.
    pub fn enter(&self) {
        let this = thread::current();
        if self.sleepers.iter().all(|sleeper| sleeper.id() != this.id()) {
            self.sleepers.add(this);
        }
    }

    /// Sleeps until woken or until `timeout` has passed, if the word is `expected`. It may also
    /// return for no reason.
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
        // ORDER(DOORBELL): Relaxed - a wake-up that comes after this ends the sleep at once.
        if self.word.load(Ordering::Relaxed) == expected {
            park(timeout);
        }
    }

    /// Ends the sleeps of all threads that sleep. The caller has changed the word.
    #[cold]
    pub fn wake(&self) {
        if cfg!(shuttle) {
            // ORDER: Relaxed - the random scheduler may stop the thread here, as it does at each
            // access, and at no call that unparks.
            self.word.load(Ordering::Relaxed);
        }
        self.sleepers.iter().for_each(Thread::unpark);
    }
}

impl Default for Futex {
    fn default() -> Futex {
        Futex { word: AtomicU32::new(0), sleepers: GrowingList::default() }
    }
}

debug! { impl[] Futex[] {} }
