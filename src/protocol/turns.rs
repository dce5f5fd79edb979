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
pub struct Turns {
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

// === impl Turns ===

impl Turns {
    /// Whether a ticket that has come is the one that counts. One that is to count later is noted.
    pub fn is_due(&mut self, turn: u64) -> bool {
        if turn > self.current {
            self.early = self.early.max(turn);
        }
        turn == self.current
    }

    /// The number of another ticket, which does not count yet.
    pub fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Lets a ticket count that is scheduled by now.
    pub fn arm(&mut self, turn: u64) -> Armed {
        debug_assert!(turn <= self.issued, "a ticket was issued");
        if turn < self.current {
            Armed::Superseded
        } else if turn <= self.early {
            Armed::Early
        } else {
            self.current = turn;
            Armed::Counts
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_first_ticket_counts_until_another_is_armed() {
        let mut turns = Turns::default();
        assert!(turns.is_due(0));
        let second = turns.issue();
        assert!(turns.is_due(0) && turns.arm(second) == Armed::Counts);
        assert!(turns.is_due(second) && !turns.is_due(0));
    }

    #[test]
    fn of_two_movers_the_one_who_asked_last_prevails() {
        let mut turns = Turns::default();
        let (one, other) = (turns.issue(), turns.issue());
        assert_eq!(turns.arm(other), Armed::Counts);
        assert_eq!(turns.arm(one), Armed::Superseded);
        assert!(turns.is_due(other) && !turns.is_due(one));
    }

    #[test]
    fn a_ticket_that_comes_before_it_counts_is_replaced_by_another() {
        let mut turns = Turns::default();
        let early = turns.issue();
        assert!(!turns.is_due(early));
        assert_eq!(turns.arm(early), Armed::Early);
        assert!(turns.is_due(0), "the old one counts as it did");
        let next = turns.issue();
        assert_eq!(turns.arm(next), Armed::Counts);
        assert!(turns.is_due(next));
    }
}
