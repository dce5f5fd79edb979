//! Decides between the thread that makes a keyed timer and the thread that finds it due.
//!
//! A timer is *first* scheduled on the engine and *then* entered under its key. So a refusal by the
//! engine leaves the key as it was, and no lock is held while the engine works. The price is that
//! the timer may be due before it is under its key. The gate keeps such an early timer from running
//! (it might still be refused, because the key is taken) and from being lost:
//!
//! ```text
//!            open: entered under its key             end: taken from under it
//!   making ─────────────────────────────────► open ─────────────────────────► over
//!     │ ▲
//!     ▼ │ shut: about to be scheduled again
//!    early   arrive: due, and not yet under its key
//! ```
//!
//! - The *maker* opens the gate under the lock of the key, in the same critical section in which it
//!   enters the timer. If it cannot open the gate, the timer has been due already: the maker enters
//!   nothing, shuts the gate and schedules the timer once more, for now.
//! - The thread to which the engine hands the timer *arrives*, under the same lock. If the gate is
//!   open it looks for the timer under the key, which decides (see `crates/keyed/src/table.rs`).
//!   If not, it goes away, and the maker will find out.
//! - The thread that has taken the timer from under its key *ends* it. This saves later arrivals
//!   the lock, under which they would find nothing.
//!
//! So no thread waits for another here, and each pass of the maker's loop is caused by a timer that
//! the engine has handed over in the meantime.
//!
//! A timer that is moved to an earlier time, or that the engine has taken out already, is scheduled
//! anew: it gets another ticket, and the one before no longer counts. As with the first one, the
//! engine gets the new ticket before it is recorded under the key, so the ticket may come before it
//! counts. `Generations` notes that, and the mover issues another. They belong to the thread that
//! holds the lock of the key; tickets are numbered from zero.
//!
//! *Orderings*: KEYED. `Relaxed` throughout: `open` and `arrive` run under the lock of the key, so
//! one of them is first, and neither needs an atomic update. The lock publishes the data. `shut`
//! runs while the engine does not have the timer, so nobody arrives. An `end` may meet an arrival
//! at a timer that its maker gives up: whichever writes last, nothing is under the key. The word is
//! atomic because a thread asks without the lock whether the timer `is_over`.
//!
//! *Tested by*: `loom-tests/tests/keyed.rs`, `tests/races/keyed/races.rs`.

use crate::{AtomicU32, Ordering};

/// The timer is not yet under its key.
const MAKING: u32 = 0;

/// The timer is under its key, or was taken from there just now.
const OPEN: u32 = 1;

/// The timer was due while it was not yet under its key.
const EARLY: u32 = 2;

/// The timer was taken from under its key, or will never be entered there.
const OVER: u32 = 3;

/// Whether a timer may be looked for under its key.
pub struct Gate {
    word: AtomicU32,
}

/// The tickets of one timer.
#[derive(Debug, Default)]
pub struct Generations {
    /// The ticket that counts.
    current: u64,
    /// The last ticket that was issued.
    issued: u64,
    /// The last ticket that came before it counted.
    early: u64,
}

/// The result of arming a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// The ticket counts.
    Counts,
    /// A later ticket counts.
    Superseded,
    /// The ticket, or a later one, has come already: another has to be issued.
    Early,
}

// === impl Gate ===

impl Gate {
    /// The maker's part, under the lock of the key and just before it enters the timer there.
    /// Returns `false` if the timer was due already and must not be entered.
    pub fn open(&self) -> bool {
        // ORDER(KEYED): Relaxed - the lock orders this and `arrive`; also the store below.
        let may = self.word.load(Ordering::Relaxed) == MAKING;
        if may {
            self.word.store(OPEN, Ordering::Relaxed);
        }
        may
    }

    /// The engine has handed the timer over. To be called under the lock of the key; returns
    /// whether to look for the timer there.
    pub fn arrive(&self) -> bool {
        // ORDER(KEYED): Relaxed - the lock orders this and `open`; also the store below.
        let was = self.word.load(Ordering::Relaxed);
        if was == MAKING {
            self.word.store(EARLY, Ordering::Relaxed);
        }
        was == OPEN
    }

    /// The maker's part, after `open` has failed: the timer is about to be scheduled again.
    #[inline]
    pub fn shut(&self) {
        debug_assert!(!self.is_over(), "a timer that is being made has not been entered");
        // ORDER(KEYED): Relaxed - nobody arrives until the engine has the timer again, and the
        // engine publishes what was written before.
        self.word.store(MAKING, Ordering::Relaxed);
    }

    /// The timer was taken from under its key, or will never be entered there.
    #[inline]
    pub fn end(&self) {
        // ORDER(KEYED): Relaxed - advice to threads that arrive later; the key's lock decides.
        self.word.store(OVER, Ordering::Relaxed);
    }

    /// Whether the timer was ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        // ORDER(KEYED): Relaxed - advice; the key's lock decides.
        self.word.load(Ordering::Relaxed) == OVER
    }
}

/// The gate of a timer that is being made.
impl Default for Gate {
    fn default() -> Gate {
        Gate { word: AtomicU32::new(MAKING) }
    }
}

debug! { impl[] Gate[] { is_over = |this| this.is_over() } }

// === impl Generations ===

impl Generations {
    /// Whether a ticket that has come is the one that counts. Notes a ticket that will count later.
    #[inline]
    pub fn is_due(&mut self, generation: u64) -> bool {
        if generation > self.current {
            self.early = self.early.max(generation);
        }
        generation == self.current
    }

    /// The number of another ticket, which does not count yet.
    #[inline]
    pub fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Makes a ticket count that has been scheduled.
    pub fn arm(&mut self, generation: u64) -> Armed {
        debug_assert!(generation <= self.issued, "a ticket was issued");
        if generation < self.current {
            Armed::Superseded
        } else if generation <= self.early {
            Armed::Early
        } else {
            self.current = generation;
            Armed::Counts
        }
    }
}
