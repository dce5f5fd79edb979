//! A timer that a task waits for, and that any thread may set to come earlier: alarm and doorbell
//! in one.
//!
//! The word says when the timer is to come. Who changes the word sets the timer to it, and looks at
//! the word again: if another thread has changed it meanwhile, the timer is set once more. So who
//! sets the timer last has found the word as it is, and the timer is right.
//!
//! ```text
//!   producer  note ─ lower the word ─ was it later? set the timer
//!   task      the timer has come ─ turns ─ change the word, set the timer ─ take the notes
//! ```
//!
//! *Owner*: one task waits and sets; any thread rings.
//!
//! *Invariant*: the timer comes no later than the word says, has come and was not seen yet, or a
//! thread is about to set it.
//!
//! *Orderings*: DOORBELL. The word is changed by RMWs alone. A ring lowers it after its note, and
//! the task takes the notes after it has changed the word.
//! - *The ring comes before the task's change*: the task takes the note.
//! - *It comes after*: it finds what the task wants. If that is later, the ring sets the timer. If
//!   not, the task comes by then, and takes the note.
//!
//! *Tested by*: `loom-tests/tests/listener.rs`, `tests/suite/drive/on_tokio.rs`.

use crate::sync::{AtomicU64, Ordering};

/// A timer. What came before a call that sets it is seen by a thread whose call comes later.
pub trait Timer: Send + Sync {
    /// Makes it come when the engine's clock shows `at_ns`, or at once if that has passed; and not
    /// because of a time that was set before.
    fn set(&self, at_ns: u64);
}

/// A timer that comes when the first of those wants it who have asked.
#[derive(Debug)]
pub struct Earliest<T> {
    timer: T,
    at_ns: AtomicU64,
}

/// There is no such time.
const NEVER: u64 = u64::MAX;

// === impl Earliest ===

impl<T: Timer> Earliest<T> {
    /// A timer that is not set.
    pub fn new(timer: T) -> Earliest<T> {
        Earliest { timer, at_ns: AtomicU64::new(NEVER) }
    }

    /// The timer itself.
    pub fn timer(&self) -> &T {
        &self.timer
    }

    /// Makes the timer come by `at_ns`. What the caller wants of the task was noted before.
    pub fn ring(&self, at_ns: u64) {
        // ORDER(DOORBELL): AcqRel - Release pairs with the Acquire in `wait`: the note. Acquire:
        // what is set next is what was wanted last.
        if self.at_ns.fetch_min(at_ns, Ordering::AcqRel) > at_ns {
            self.settle();
        }
    }

    /// The timer comes at `at_ns`, which is what the task waits for from now on. If it `has_come`,
    /// the task has seen that; if not, it comes no later than it would have come. The task takes
    /// the notes *after* this.
    pub fn wait(&self, at_ns: u64, has_come: bool) {
        if !has_come {
            return self.ring(at_ns);
        }
        // ORDER(DOORBELL): AcqRel - Acquire pairs with the Release in `ring`: the notes of those
        // who relied on the time before. Release as there.
        self.at_ns.swap(at_ns, Ordering::AcqRel);
        if at_ns != NEVER {
            self.settle();
        }
    }

    /// Sets the timer to what the word says.
    fn settle(&self) {
        // ORDER(DOORBELL): Acquire, both - a thread that sets the timer after another one sees what
        // that has made of the word.
        let mut at_ns = self.at_ns.load(Ordering::Acquire);
        loop {
            self.timer.set(at_ns);
            let now_ns = self.at_ns.load(Ordering::Acquire);
            if now_ns == at_ns {
                return;
            }
            at_ns = now_ns;
        }
    }
}

#[cfg(target_os = "linux")]
impl<T: std::os::fd::AsRawFd> std::os::fd::AsRawFd for Earliest<T> {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.timer.as_raw_fd()
    }
}
