//! Between the thread that makes a keyed timer and the one that finds it due.
//!
//! A timer is scheduled on the engine *first* and entered under its key *then*: so a refusal by
//! the engine leaves the key as it was, and no lock is held while the engine works. The price is
//! that the timer may be due before it is under its key. The gate keeps such an early one from
//! running (it might still be refused, because the key is taken) and from being lost:
//!
//! ```text
//!            open: entered under its key             end: taken from under it
//!   making ─────────────────────────────────► open ─────────────────────────► over
//!     │ ▲
//!     ▼ │ shut: about to be scheduled again
//!    early   arrive: due, and not yet under its key
//! ```
//!
//! - The *maker* opens the gate under the lock of the key, in the same hold of it in which the
//!   timer is entered. If it cannot, the timer has been due already: the maker enters nothing,
//!   shuts the gate and schedules the timer once more, for now.
//! - Whoever the engine hands the timer to *arrives*, without a lock. Where the gate is open it
//!   takes the lock and looks for the timer under the key, which decides (see `keyed/table.rs`).
//!   Where it is not it goes away, and the maker will find out.
//! - Whoever has taken the timer from under its key *ends* it, to save those who arrive later the
//!   way to the lock; they would find nothing there.
//!
//! So nobody waits for anybody here, and each pass of the maker's loop is due to a timer that the
//! engine has handed over in the meantime.
//!
//! *Orderings*: KEYED. `Relaxed` throughout: what matters is that `open` and `arrive` are exchanges
//! of one word, of which one is first. What they are about is published by others: whoever arrives
//! at an open gate takes the lock in which it was opened, and cannot have held it before that, as
//! it has read what was written inside. An early one leaves nothing to read.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/keyed.rs`, `tests/keyed_races.rs`.

use std::fmt;

use crate::sync::{AtomicU32, Ordering};

/// Not yet under its key.
const MAKING: u32 = 0;

/// Under its key, or taken from there just now.
const OPEN: u32 = 1;

/// Was due while it was not yet under its key.
const EARLY: u32 = 2;

/// Taken from under its key.
const OVER: u32 = 3;

/// Whether a timer may be looked for under its key.
pub struct Gate {
    word: AtomicU32,
}

// === impl Gate ===

impl Gate {
    /// The gate of a timer that is being made.
    pub fn new() -> Gate {
        Gate { word: AtomicU32::new(MAKING) }
    }

    /// The maker's part, under the lock of the key and just before the timer is entered there.
    /// `false`: it was due already, and is not to be entered.
    pub fn open(&self) -> bool {
        // ORDER(KEYED): Relaxed - against `arrive`: one of the two exchanges is first. The lock
        // publishes what is entered.
        self.word.compare_exchange(MAKING, OPEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The engine has handed the timer over. Whether to look for it under its key.
    pub fn arrive(&self) -> bool {
        // ORDER(KEYED): Relaxed - against `open`, as there. The word may be over by now: then
        // nothing will be found.
        let was = self.word.compare_exchange(MAKING, EARLY, Ordering::Relaxed, Ordering::Relaxed);
        was == Err(OPEN)
    }

    /// The maker's part, after `open` has failed: the timer is about to be scheduled again.
    pub fn shut(&self) {
        debug_assert!(!self.is_over(), "whoever makes a timer has not entered it");
        // ORDER(KEYED): Relaxed - nobody arrives until the engine has the timer again, and the
        // engine publishes what was written before.
        self.word.store(MAKING, Ordering::Relaxed);
    }

    /// The timer was taken from under its key, or will never be entered there.
    pub fn end(&self) {
        // ORDER(KEYED): Relaxed - advice to those who arrive later; the key's lock decides.
        self.word.store(OVER, Ordering::Relaxed);
    }

    /// Whether the timer was ended.
    pub fn is_over(&self) -> bool {
        // ORDER(KEYED): Relaxed - as in `end`.
        self.word.load(Ordering::Relaxed) == OVER
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn whoever_arrives_at_an_open_gate_may_look() {
        let gate = Gate::new();
        assert!(gate.open());
        assert!(gate.arrive());
        assert!(gate.arrive(), "an older timer of the same node may come by as well");
        gate.end();
        assert!(!gate.arrive() && gate.is_over());
    }

    #[test]
    fn whoever_arrives_early_is_heard_of_and_comes_again() {
        let gate = Gate::new();
        assert!(!gate.arrive());
        assert!(!gate.open() && !gate.open());
        gate.shut();
        assert!(gate.open() && gate.arrive());
    }

    #[test]
    fn nobody_looks_for_what_was_given_up() {
        let gate = Gate::new();
        gate.end();
        assert!(!gate.arrive() && !gate.open());
    }
}
