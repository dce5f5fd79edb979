//! Which of a timer's tickets counts.
//!
//! A timer that is moved to an earlier time, or that the engine has taken out already, is scheduled
//! anew: it gets another ticket, and the one before no longer counts. As with the first ticket (see
//! `gate`), the engine gets the new ticket before it is recorded under the key, so the ticket may
//! come before it counts. That is noted, and the mover issues another.
//!
//! *Owner*: the thread that holds the lock of the key. Tickets are numbered from zero.
//!
//! *Tested by*: `loom-tests/tests/keyed.rs`, `tests/races/keyed/races.rs`.

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
