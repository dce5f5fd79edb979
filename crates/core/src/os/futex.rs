//! A word on which threads sleep, by a call of the system: a futex.
//!
//! *Owner*: any thread sleeps, and any thread wakes.

use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

use crate::sync::AtomicU32;

/// A word that the system looks at before it lets a thread sleep.
#[derive(Default)]
pub struct Futex {
    word: AtomicU32,
}

// === impl Futex ===

impl Futex {
    /// The word.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Nothing is to be done before a sleep.
    pub fn enter(&self) {}

    /// Sleeps until woken or until `timeout` has passed, if the word is `expected`. It may also
    /// return for no reason.
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
        // One that is too long to represent lasts for ever.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let _ = futex::wait(&self.word, Flags::PRIVATE, expected, timeout.as_ref());
    }

    /// Ends the sleeps of all threads that sleep. The caller has changed the word.
    #[cold]
    pub fn wake(&self) {
        let _ = futex::wake(&self.word, Flags::PRIVATE, i32::MAX as u32);
    }
}

debug! { impl[] Futex[] {} }
