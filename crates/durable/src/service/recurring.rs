//! Recurring timers: a name, and the times at which it comes.
//!
//! Of each, the store has one occurrence, the next one, under the name as its key. The end of an
//! occurrence and the one after it are written in the same batch, so there is always one. What the
//! times are, each process says when it opens the store: then the occurrence that is there stays if
//! it is one of these times, and is replaced if not.
//!
//! *Owner*: who opens the service; then the writer, which holds no lock while it asks for a time.
//!
//! *Tested by*: `tests/durable/recurring.rs`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::StoreError;
use crate::foreign;
use crate::position::{Position, ms_at_or_after, ms_passed, time_of};
use crate::record::{Key, Record};
use crate::store::{Op, Store};

use super::config::{Config, Recurring};
use super::numbers::Numbers;
use super::unreadable;

/// The times of a recurring timer: those that are full multiples of `period` since 1970, by the
/// clock that timers go by. For [`Builder::recurring`](crate::Builder::recurring).
///
/// All timers of one period come at the same times: to spread many of them, give each an offset of
/// its own in a closure.
///
/// A period is rounded down to a millisecond, and has at least one.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tickless_durable::every;
///
/// let hourly = every(Duration::from_secs(3600));
/// let at = |minutes: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(minutes * 60);
/// assert_eq!(hourly(at(59)), Some(at(60)));
/// assert_eq!(hourly(at(60)), Some(at(120)));
/// ```
pub fn every(period: Duration) -> impl Fn(SystemTime) -> Option<SystemTime> + Send + Sync + Clone {
    let period_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
    move |after| time_of((ms_passed(after) / period_ms).checked_add(1)?.checked_mul(period_ms)?)
}

// === impl Recurring ===

impl Recurring {
    /// The next occurrence; `None` if there is none. This calls foreign code.
    pub(super) fn after(&self, name: &Key, after: SystemTime, number: u64) -> Option<Arc<Record>> {
        let due_ms = ms_at_or_after(self.next(after)?);
        let position = Position { due_ms, number };
        Some(Arc::new(Record::new(position, Some(name.clone()), self.payload.clone())))
    }

    /// Times that do not go on would come again and again.
    fn next(&self, after: SystemTime) -> Option<SystemTime> {
        foreign::call(|| (self.next)(after)).ok().flatten().filter(|next| *next > after)
    }

    /// Whether this timer is one of the occurrences.
    fn has(&self, timer: &Record) -> bool {
        let due = timer.first_due();
        let before = due.checked_sub(Duration::from_millis(1)).and_then(|before| self.next(before));
        let is_one = before.is_some_and(|next| ms_at_or_after(next) == timer.first_due_ms);
        is_one && timer.payload == self.payload
    }
}

/// Sees that the next occurrence of each is there, before the service begins.
pub(super) fn settle(
    store: &mut impl Store,
    config: &Config,
    numbers: &mut Numbers,
    now: SystemTime,
) -> Result<(), StoreError> {
    for (name, recurring) in &config.recurring {
        let number = numbers.take();
        let Some(next) = number.and_then(|number| recurring.after(name, now, number)) else {
            continue;
        };
        let found = store.commit(&[Op::PutNew(next.clone())])?.pop().flatten();
        let Some(position) = found else { continue };
        let (found, _) = unreadable::scan(store, Some(position.before()), 1)?;
        let is_there = |timer: &&Record| timer.position == position;
        if !found.iter().find(is_there).is_some_and(|timer| recurring.has(timer)) {
            store.commit(&[Op::Put(next)])?;
        }
    }
    Ok(())
}
