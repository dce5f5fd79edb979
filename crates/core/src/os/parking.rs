//! A word on which a thread sleeps, where the system is not asked for it: under the checkers, and
//! on systems other than Linux. The thread parks.
//!
//! The standard library's `unpark` has the gap that `doorbell/parker.rs` is about. For the checkers
//! it is one step after the word was changed.
//!
//! *Owner*: one thread sleeps, always the same; any thread wakes it.

use std::time::Duration;

use crate::sync::{AtomicU32, OnceLock, Ordering, Thread, park, thread};

/// A word, and the thread that sleeps on it.
pub struct Futex {
    word: AtomicU32,
    sleeper: OnceLock<Thread>,
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
        self.sleeper.get_or_init(thread::current);
    }

    /// Sleeps until woken or until `timeout` has passed, if the word is `expected`. It may also
    /// return for no reason.
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
        // ORDER(DOORBELL): Relaxed - a wake-up that comes after this ends the sleep at once.
        if self.word.load(Ordering::Relaxed) == expected {
            park(timeout);
        }
    }

    /// Ends the sleep of the thread that sleeps, if there is one. The caller has changed the word.
    #[cold]
    pub fn wake(&self) {
        if cfg!(shuttle) {
            // ORDER: Relaxed - the random scheduler may stop the thread here, as it does at each
            // access, and at no call that unparks.
            self.word.load(Ordering::Relaxed);
        }
        self.sleeper.get().iter().for_each(|thread| thread.unpark());
    }
}

impl Default for Futex {
    fn default() -> Futex {
        Futex { word: AtomicU32::new(0), sleeper: OnceLock::new() }
    }
}

debug! { impl[] Futex[] {} }
