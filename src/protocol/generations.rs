//! Which of a timer's tickets counts.
//!
//! A timer that is moved to an earlier time, or that the engine has taken out already, is scheduled
//! anew: it gets another ticket, and the one before is worth nothing from then on. As with the
//! first (see `gate`) that is done on the engine before it is written down under the key, so that
//! the new ticket may come before it counts. It is noted then, and the mover issues another.
//!
//! *Owner*: whoever has the lock of the key. Tickets are numbered from zero, which is the first.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/keyed.rs`, `tests/keyed_races.rs`.

/// The tickets of one timer.
#[derive(Debug, Default)]
pub struct Generations {
    /// The one that counts.
    current: u64,
    /// The last that was issued.
    issued: u64,
    /// The last that came before it counted.
    early: u64,
}

/// What becomes of a ticket that was to count from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// It counts.
    Counts,
    /// A later one does.
    Superseded,
    /// It, or a later one, has come already: another is to be issued.
    Early,
}

// === impl Generations ===

impl Generations {
    /// Whether a ticket that has come is the one that counts. One that is to count later is noted.
    pub fn is_due(&mut self, generation: u64) -> bool {
        if generation > self.current {
            self.early = self.early.max(generation);
        }
        generation == self.current
    }

    /// The number of another ticket, which does not count yet.
    pub fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Lets a ticket count that is scheduled by now.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_first_ticket_counts_until_another_is_armed() {
        let mut generations = Generations::default();
        assert!(generations.is_due(0));
        let second = generations.issue();
        assert!(generations.is_due(0) && generations.arm(second) == Armed::Counts);
        assert!(generations.is_due(second) && !generations.is_due(0));
    }

    #[test]
    fn of_two_movers_the_one_who_asked_last_prevails() {
        let mut generations = Generations::default();
        let (one, other) = (generations.issue(), generations.issue());
        assert_eq!(generations.arm(other), Armed::Counts);
        assert_eq!(generations.arm(one), Armed::Superseded);
        assert!(generations.is_due(other) && !generations.is_due(one));
    }

    #[test]
    fn a_ticket_that_comes_before_it_counts_is_replaced_by_another() {
        let mut generations = Generations::default();
        let early = generations.issue();
        assert!(!generations.is_due(early));
        assert_eq!(generations.arm(early), Armed::Early);
        assert!(generations.is_due(0), "the old one counts as it did");
        let next = generations.issue();
        assert_eq!(generations.arm(next), Armed::Counts);
        assert!(generations.is_due(next));
    }
}
