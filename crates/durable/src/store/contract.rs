//! What a store is: the trait, the changes that it is asked for, and how much is in it.
//!
//! *Tested by*: the conformance suite, `tests/durable/told.rs`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::StoreError;
use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Key, Record};

/// One change of a store. Together with others it makes a batch for [`Store::commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Takes the timer at this position out, if it is there.
    Remove(Position),
    /// If there is a timer at `from`, puts `to` in its place: the same timer, due later. If there
    /// is none, does nothing: it was cancelled or replaced meanwhile.
    Move {
        /// Where the timer is.
        from: Position,
        /// The timer as it is from now on.
        to: Arc<Record>,
    },
    /// If there is a timer at `from`, takes it out and keeps this letter instead.
    Bury {
        /// Where the timer is.
        from: Position,
        /// What is kept of it.
        letter: Arc<DeadLetter>,
    },
    /// Takes the timer with this number out, wherever it is by now.
    Cancel(TimerId),
    /// Takes the timer with this key out.
    CancelKey(Key),
    /// Adds a timer. If it has a key, takes the timer out that has this key.
    Put(Arc<Record>),
    /// Adds a timer that has a key, unless there is one with this key: that one stays, and the
    /// result has its position although nothing was taken out.
    PutNew(Arc<Record>),
    /// Takes the dead letter out whose record has this position.
    Forget(Position),
    /// If there is a dead letter at `from`, takes it out and adds `to`: the same timer, without a
    /// key. If there is none, does nothing.
    Revive {
        /// The position of the letter's record.
        from: Position,
        /// The timer as it is from now on.
        to: Arc<Record>,
    },
}

/// Where timers are kept.
///
/// The only truth about timers is here: whatever a service knows besides it can be lost at any
/// moment. [How to write another store](crate::store) tells what is asked of an implementation.
pub trait Store: Send + 'static {
    /// Adds one to the number of sessions, durably, and returns the new number: 1 for a store that
    /// was never used. A service calls this before anything else, and again whenever it has
    /// numbered 16,777,216 timers.
    ///
    /// # Errors
    /// The store cannot be written.
    fn begin(&mut self) -> Result<u64, StoreError>;

    /// As [`begin`](Store::begin), with a number that is not below `least`. For a file that has
    /// timers of another's sessions.
    #[doc(hidden)]
    fn begin_at_least(&mut self, least: u64) -> Result<u64, StoreError> {
        loop {
            let session = self.begin()?;
            if session >= least {
                return Ok(session);
            }
        }
    }

    /// Makes the changes, in this order, all or none of them, and returns when they are durable:
    /// they then survive a crash of this process and of the machine.
    ///
    /// For each change, the result has the position of the timer (or of the dead letter) that it
    /// took out: for a `Put` that of the timer with the same key, for a `Move` the timer's former
    /// one. `None` means that there was nothing to take out. A batch that changes nothing need not
    /// be written.
    ///
    /// # Errors
    /// [`InUse`](crate::StoreErrorKind::InUse), of a store that instances share: nothing was
    /// changed, because others have some of it locked, and the service tries again, in parts. With
    /// any other error, it is unknown whether the batch is durable. The service stops, and never
    /// uses this store again: after a failed write, only opening a store anew tells what is in it.
    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError>;

    /// Returns the first `limit` timers after the position `after`, or from the beginning on if it
    /// is `None`, in order of their positions. Fewer than `limit` means that there are no more.
    ///
    /// # Errors
    /// The store cannot be read, or what is there is damaged. A damaged record is never left out.
    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// As [`scan`](Store::scan), for the dead letters, in order of their records' positions.
    ///
    /// # Errors
    /// As for `scan`.
    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError>;

    /// Of the first `limit` timers after a position, those that [`scan`](Store::scan) cannot read,
    /// as dead letters with the bytes that are there. A service buries them ([`Op::Bury`]), which
    /// then has to work, and scans again. Default: none, and an error of `scan` ends the service.
    ///
    /// # Errors
    /// As for `scan`.
    fn unreadable(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let _ = (after, limit);
        Ok(Vec::new())
    }

    /// Of the timers at these positions, those that are there, in any order. Default: scans for
    /// each.
    ///
    /// # Errors
    /// As for `scan`.
    fn at(&mut self, positions: &[Position]) -> Result<Vec<Record>, StoreError> {
        let mut found = Vec::new();
        for position in positions {
            let record = self.scan(Some(position.before()), 1)?.pop();
            found.extend(record.filter(|record| record.position == *position));
        }
        Ok(found)
    }

    /// How keys begin whose timers do not fire, in any order: see
    /// [`Durable::pause`](crate::Durable::pause). Default: there are none.
    ///
    /// # Errors
    /// As for `scan`.
    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        Ok(Vec::new())
    }

    /// Adds one to the [`pauses`](Store::pauses), or takes it out, durably. Returns whether that
    /// has changed them. Default: it never does.
    ///
    /// # Errors
    /// As for [`begin`](Store::begin).
    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError> {
        let _ = (prefix, is_paused);
        Ok(false)
    }

    /// The timer with this number, wherever it is by now. Default: reads all timers if it is not
    /// where it was first.
    ///
    /// # Errors
    /// As for `scan`.
    fn get(&mut self, id: TimerId) -> Result<Option<Record>, StoreError> {
        let first = id.first_position();
        let mut after = (first != Position::FIRST).then(|| first.before());
        let mut limit = 1;
        loop {
            let page = self.scan(after, limit)?;
            if let Some(found) = page.iter().find(|record| record.id() == id) {
                return Ok(Some(found.clone()));
            }
            if limit == PAGE && page.len() < limit {
                return Ok(None);
            }
            after = (limit == PAGE).then(|| page.last().map(|last| last.position)).flatten();
            limit = PAGE;
        }
    }

    /// How much is in the store. Default: reads all of it.
    ///
    /// # Errors
    /// As for `scan`.
    fn contents(&mut self) -> Result<Contents, StoreError> {
        let mut contents = Contents::default();
        let mut after = None;
        loop {
            let page = self.scan(after, PAGE)?;
            contents.timers += page.len() as u64;
            contents.first_due = contents.first_due.or(page.first().map(Record::due));
            after = page.last().map(|last| last.position);
            if page.len() < PAGE {
                break;
            }
        }
        after = None;
        loop {
            let page = self.dead_letters(after, PAGE)?;
            contents.dead_letters += page.len() as u64;
            after = page.last().map(|last| last.record.position);
            if page.len() < PAGE {
                return Ok(contents);
            }
        }
    }
}

/// How much is read at a time where a store has no better way.
const PAGE: usize = 1024;

/// How much is in a store, or in a shard of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// The timers: those that are still to be due, those that are due, and those that are tried
    /// again later.
    pub timers: u64,
    /// When the first of them is due, or was: see [`lag`](Contents::lag).
    pub first_due: Option<SystemTime>,
    /// The dead letters.
    pub dead_letters: u64,
}

// === impl Contents ===

impl Contents {
    /// How late the first timer is. Zero if none is due.
    pub fn lag(&self, now: SystemTime) -> Duration {
        let late = self.first_due.and_then(|due| now.duration_since(due).ok());
        late.unwrap_or_default()
    }
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn begin(&mut self) -> Result<u64, StoreError> {
        (**self).begin()
    }

    fn begin_at_least(&mut self, least: u64) -> Result<u64, StoreError> {
        (**self).begin_at_least(least)
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        (**self).commit(batch)
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        (**self).scan(after, limit)
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        (**self).dead_letters(after, limit)
    }

    fn unreadable(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        (**self).unreadable(after, limit)
    }

    fn at(&mut self, positions: &[Position]) -> Result<Vec<Record>, StoreError> {
        (**self).at(positions)
    }

    fn get(&mut self, id: TimerId) -> Result<Option<Record>, StoreError> {
        (**self).get(id)
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        (**self).contents()
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        (**self).pauses()
    }

    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError> {
        (**self).set_pause(prefix, is_paused)
    }
}
