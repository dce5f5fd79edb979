//! The numbers of timers, of which no two are the same, also across restarts.
//!
//! A session of a store has a range of numbers. A number that was given out and whose timer never
//! became durable is not given out again by the next session, so that an old number never reaches
//! another timer. When a session has used up its range, it begins another session.
//!
//! *Owner*: under the service's lock.

use crate::error::OpenError;
use crate::position::{END, TimerId};
use crate::store::Store;

/// How many numbers a session has.
const RANGE: u64 = 1 << 40;

pub(crate) struct Numbers {
    next: u64,
    end: u64,
    /// The first one of this process.
    first: u64,
}

// === impl Numbers ===

impl Numbers {
    /// Begins a session of the store.
    ///
    /// # Errors
    /// The store fails, or there are no more numbers.
    pub(super) fn begin(store: &mut impl Store) -> Result<Numbers, OpenError> {
        Numbers::of_session(store.begin()?)
    }

    /// The numbers of that session.
    ///
    /// # Errors
    /// There are no more.
    pub(crate) fn of_session(session: u64) -> Result<Numbers, OpenError> {
        let first = session.checked_mul(RANGE).filter(|first| *first < END);
        let first = first.ok_or(OpenError::TooManySessions)?;
        Ok(Numbers { next: first, end: first + RANGE, first })
    }

    /// The next number; `None` until there is another range.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let number = self.next;
        (number < self.end).then(|| {
            self.next += 1;
            number
        })
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.next == self.end
    }

    /// Goes on with the range of another session.
    pub(super) fn go_on(&mut self, other: Numbers) {
        (self.next, self.end) = (other.next, other.end);
    }

    /// Whether an earlier process has given out the number.
    pub(super) fn is_earlier(&self, id: TimerId) -> bool {
        id.first_position().number < self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Position;
    use crate::store::Disk;

    #[test]
    fn no_two_sessions_have_the_same_numbers() {
        let disk = Disk::default();
        let mut numbers = Numbers::begin(&mut disk.open()).unwrap();
        let mut others = Numbers::begin(&mut disk.open()).unwrap();
        let earlier = numbers.take().unwrap();
        numbers.next = numbers.end - 1;
        let last = numbers.take().unwrap();
        assert!(numbers.is_used_up() && numbers.take().is_none());
        let later = others.take().unwrap();
        assert!(earlier < last && last < later);
        let id = |number| TimerId::of(Position { due_ms: 0, number });
        assert!(others.is_earlier(id(last)) && !others.is_earlier(id(later)));
        assert!(!numbers.is_earlier(id(earlier)));
        numbers.go_on(Numbers::begin(&mut disk.open()).unwrap());
        assert!(numbers.take().unwrap() > later);
    }
}
