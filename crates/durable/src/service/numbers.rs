//! The numbers of timers, of which no two are the same, also across restarts.
//!
//! | bits | what they are |
//! |---|---|
//! | 23 | the session, which the store counts |
//! | 16 | the epoch, which is random for each session |
//! | 24 | the timers of the session |
//!
//! A session of a store has a range of numbers. A number that was given out and whose timer never
//! became durable is not given out again by the next session, so that an old number never reaches
//! another timer. When a session has used up its range, it begins another session.
//!
//! A store that is restored from a copy, or a standby that lacks the last transactions, counts some
//! sessions again. Their epochs differ, so that their numbers do: all but one time in 32,768.
//! The other half of the epochs is for timers that a database numbers itself.
//!
//! *Owner*: under the service's lock.
//!
//! *Tested by*: here.

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

use crate::error::{OpenError, StoreError, StoreErrorKind};
use crate::position::{END, TimerId};
use crate::store::Store;

/// How many numbers a session has.
const RANGE: u64 = 1 << 24;

/// How many epochs there are.
const EPOCHS: u64 = 1 << 16;

pub(crate) struct Numbers {
    next: u64,
    end: u64,
    /// The first one that a session of this process could have.
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
        let first = session.checked_mul(EPOCHS * RANGE).filter(|first| *first < END);
        let first = first.ok_or(OpenError::TooManySessions)?;
        // Each of these has random keys.
        let epoch = EPOCHS / 2 + RandomState::new().hash_one(SystemTime::now()) % (EPOCHS / 2);
        let next = first + epoch * RANGE;
        Ok(Numbers { next, end: next + RANGE, first })
    }

    /// A number of the session itself, with its epoch.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn session(&self) -> u64 {
        (self.end - 1) / RANGE
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

    /// Whether more than half of the range was given out.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn is_half_used(&self) -> bool {
        self.end - self.next < RANGE / 2
    }

    /// Goes on with the range of another session.
    ///
    /// # Errors
    /// There are no more.
    pub(crate) fn go_on(&mut self, session: u64) -> Result<(), StoreError> {
        let over = |error: OpenError| StoreError::new(StoreErrorKind::Io, error.to_string());
        let other = Numbers::of_session(session).map_err(over)?;
        (self.next, self.end) = (other.next, other.end);
        Ok(())
    }

    /// Gives all out but the last ones.
    #[cfg(test)]
    pub(crate) fn use_up_but(&mut self, left: u64) {
        self.next = self.end - left;
    }

    /// Whether an earlier process has given out the number.
    pub(super) fn is_earlier(&self, id: TimerId) -> bool {
        id.first_position().number < self.first
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::position::Position;
    use crate::service::{Builder, Firing, every};
    use crate::store::Disk;

    #[test]
    fn no_two_sessions_have_the_same_numbers() {
        let disk = Disk::default();
        let mut numbers = Numbers::begin(&mut disk.open()).unwrap();
        let mut others = Numbers::begin(&mut disk.open()).unwrap();
        let earlier = numbers.take().unwrap();
        assert!(earlier < numbers.end && numbers.end - earlier == RANGE);
        numbers.use_up_but(1);
        let last = numbers.take().unwrap();
        assert!(numbers.is_used_up() && numbers.take().is_none());
        let later = others.take().unwrap();
        assert!(earlier < last && last < later);
        let id = |number| TimerId::of(Position { due_ms: 0, number });
        assert!(others.is_earlier(id(last)) && !others.is_earlier(id(later)));
        assert!(!numbers.is_earlier(id(earlier)));
        numbers.go_on(disk.open().begin().unwrap()).unwrap();
        assert!(numbers.take().unwrap() > later);
    }

    #[test]
    fn an_occurrence_has_another_number_than_the_one_before_it_also_if_none_is_left() {
        let (disk, now) = (Disk::default(), UNIX_EPOCH + Duration::from_millis(9500));
        let builder = Builder::new().recurring("k", "", every(Duration::from_secs(1)));
        let handler = |_: &Firing<String>| Ok::<(), String>(());
        let mut service = builder.open_by_hand(disk.open(), now, handler).unwrap();
        service.step().unwrap();
        let before = disk.timers().remove(0).position;
        service.advance(Duration::from_millis(500));
        assert!(service.worker()());
        service.timers().core.state().numbers.use_up_but(0);
        service.step().unwrap();
        let after = disk.timers().remove(0).position;
        assert!(after.due_ms > before.due_ms && after.number > before.number, "{after:?}");
    }

    /// As of a file that was copied before them.
    #[test]
    fn sessions_that_are_counted_twice_have_other_numbers() {
        let first = |_| Numbers::of_session(7).unwrap().take().unwrap();
        let firsts: std::collections::BTreeSet<u64> = (0..8).map(first).collect();
        assert!(firsts.len() > 1, "all of them begin with {firsts:?}");
        assert!(firsts.iter().all(|first| first >> 40 == 7));
    }

    #[test]
    fn there_is_an_end_of_sessions() {
        assert!(Numbers::of_session((1 << 23) - 1).unwrap().take().unwrap() < END);
        let over = Numbers::of_session(1 << 23).err();
        assert!(matches!(over, Some(OpenError::TooManySessions)));
    }
}
