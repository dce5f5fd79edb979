//! The state of a timeout: one word, decided by one CAS.
//!
//! ```text
//!              cancel, stop, or the end of the timer
//!   waiting ──────────────────────────────────────────► cancelled
//!      └──────────────────────────────────────────────► expired
//!              the reaper, when it comes to the timeout
//! ```
//!
//! *Who decides*: a race between cancelling and firing involves two words. The engine's (the state
//! word of the entry) decides which side gets the payload, which is one reference to the timeout
//! and the timer's place in the wheel. This one decides what the user is told and whether the task
//! runs. They cannot contradict each other, because the result of the engine's word decides nothing
//! else:
//!
//! - Cancelled here, then cancelled in the engine: the place is free at once, the usual case.
//! - Cancelled here, while the engine was handing the timeout over or stopping: the engine no
//!   longer counts it, and the receiver of the reference finds the timeout cancelled and drops it.
//! - Expired here: the engine has handed it over, and no caller will cancel it there.
//!
//! So a task can cancel a timeout that the reaper has already taken out in the same batch, which
//! the engine's word alone could not guarantee.
//!
//! *Orderings*: no memory is published through this word, so it is no handshake and has no model.
//! See `timeout.rs` for why the winner may take the handle.

use crate::sync::{AtomicU32, Ordering};

/// The state word: waiting, or how the timeout ended.
#[derive(Debug)]
pub(super) struct Fate(AtomicU32);

/// How a timeout ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum End {
    /// Its task will never run.
    Cancelled = 1,
    /// Its task runs, or has run, or was given to a dispatcher.
    Expired = 2,
}

const WAITING: u32 = 0;

// === impl Fate ===

impl Fate {
    /// Nothing is decided yet.
    pub(super) fn new() -> Fate {
        Fate(AtomicU32::new(WAITING))
    }

    /// Decides the end, unless it is decided. Returns `true` once in the life of the timeout.
    pub(super) fn decide(&self, end: End) -> bool {
        let (waiting, end) = (WAITING, end as u32);
        // ORDER: AcqRel - a thread that reads the end also sees what the decider did before.
        self.0.compare_exchange(waiting, end, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// How the timeout ended; `None`: it has not.
    pub(super) fn end(&self) -> Option<End> {
        // ORDER: Acquire - as in `decide`.
        match self.0.load(Ordering::Acquire) {
            WAITING => None,
            end if end == End::Cancelled as u32 => Some(End::Cancelled),
            _ => Some(End::Expired),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_decide_is_told_so_and_it_stays_decided() {
        for (first, second) in [(End::Cancelled, End::Expired), (End::Expired, End::Cancelled)] {
            let fate = Fate::new();
            assert_eq!(fate.end(), None);
            assert!(fate.decide(first));
            assert!(!fate.decide(second) && !fate.decide(first));
            assert_eq!(fate.end(), Some(first));
        }
    }
}
