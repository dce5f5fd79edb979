//! The batch that is being gathered: what was asked for and is not written yet.
//!
//! A timer that is cancelled here never reaches the disk, so each new timer waits here for a while,
//! unless somebody waits for it or it is due soon. A batch is written in
//! this order: what became of timers that have fired, then cancels, then new timers. So a cancel
//! meets a timer that has just been put off to its next attempt, and a new timer with a key meets
//! the one that it replaces.
//!
//! *Owner*: under the service's lock.
//!
//! *Invariants*: of the new timers here that replace others, one at most has a given key. Those
//! that are only added where there is none are written in the order in which they came.
//!
//! *Tested by*: here, and `tests/durable/oracle`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::position::{Position, TimerId};
use crate::promise::Promise;
use crate::record::{Key, Record};
use crate::store::Op;

use super::cancelled::Cancelled;
use super::config::LINGERS;
use super::reading::Question;

/// How many timers that others have added are read at a time, unless one of them is due within
/// `AHEAD_MS`.
const MANY: usize = 1024;
const AHEAD_MS: u64 = 250;

#[derive(Default)]
pub(super) struct Pending {
    /// What became of timers that have fired.
    outcomes: Vec<Unit>,
    cancels: Vec<Unit>,
    /// By their numbers.
    puts: BTreeMap<u64, Put>,
    /// What their keys and payloads take.
    bytes: usize,
    /// Some of them should wait no longer.
    has_urgent_put: bool,
    /// The numbers of those that have a key and replace others.
    keys: HashMap<Key, u64>,
    /// The numbers of those that are only added where there is none with their key.
    new_keys: HashMap<Key, BTreeSet<u64>>,
    cancelled_ids: HashSet<TimerId>,
    cancelled_keys: HashSet<Key>,
    /// What only the writer can look up, because it has the store.
    pub(super) requests: Vec<Box<dyn Question>>,
    /// Where others have added timers, which are read before these are due.
    pub(super) there: Vec<Position>,
    /// Since when anything else than new timers waits here, and whether it should wait no longer.
    since: Option<Instant>,
    is_urgent: bool,
    /// Others write now, so what may be written should be.
    is_called: bool,
    /// A batch is being written.
    pub(super) is_writing: bool,
}

/// A new timer.
struct Put {
    record: Arc<Record>,
    waiter: Waiter,
    since: Instant,
    is_urgent: bool,
}

/// Who waits for a new timer.
pub(super) enum Waiter {
    Put(Promise<()>),
    /// It is only added where there is none with its key.
    New(Promise<Option<TimerId>>),
}

/// A change and what follows when it is durable.
pub(super) struct Unit {
    pub(super) op: Op,
    pub(super) then: Then,
}

pub(super) enum Then {
    /// A new timer can be admitted to the window.
    Admit(Arc<Record>, Promise<()>),
    /// The same, unless there was one with its key.
    AdmitNew(Arc<Record>, Promise<Option<TimerId>>),
    /// A timer that has fired leaves the window.
    Leave(Position),
    /// The same, of a recurring one, whose next occurrence is then in the same batch.
    Recur(Arc<Record>),
    /// The same, and it comes again.
    Retry(Position, Arc<Record>),
    /// A timer can begin: the note is durable that it does.
    Begin(Position),
    /// A cancel is over. What it did was decided before, or else the store decides.
    Cancel(Option<Cancelled>, Promise<Cancelled>),
    /// A dead letter is gone.
    Forget(Promise<bool>),
    /// The same, and it is this timer again.
    Revive(Arc<Record>, Promise<bool>),
}

// === impl Pending ===

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.changes() == 0 && self.requests.is_empty()
    }

    /// How many changes wait here.
    pub(super) fn changes(&self) -> usize {
        self.outcomes.len() + self.cancels.len() + self.puts.len()
    }

    /// How many new timers wait here, whose number callers decide.
    pub(super) fn puts(&self) -> usize {
        self.puts.len()
    }

    /// How many bytes their keys and payloads have.
    pub(super) fn put_bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a new timer. One that waits here under the same key is replaced; its promise comes
    /// back.
    pub(super) fn put(
        &mut self,
        record: Arc<Record>,
        waiter: Waiter,
        is_urgent: bool,
    ) -> Option<Waiter> {
        let number = record.position.number;
        let key = record.key.clone();
        let replaced = if matches!(waiter, Waiter::New(_)) {
            if let Some(key) = key {
                self.new_keys.entry(key).or_default().insert(number);
            }
            None
        } else {
            key.and_then(|key| self.keys.insert(key, number))
        };
        self.bytes += record.bytes();
        self.puts.insert(number, Put { record, waiter, since: Instant::now(), is_urgent: false });
        if is_urgent {
            self.hurry(Some(number));
        }
        replaced.and_then(|number| self.remove(number)).map(|put| put.waiter)
    }

    fn remove(&mut self, number: u64) -> Option<Put> {
        let put = self.puts.remove(&number)?;
        self.bytes -= put.record.bytes();
        if let (Waiter::New(_), Some(key)) = (&put.waiter, &put.record.key)
            && let Some(numbers) = self.new_keys.get_mut(key)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.new_keys.remove(key);
            }
        }
        Some(put)
    }

    /// Takes a new timer out, which is then never written.
    pub(super) fn elide(&mut self, id: TimerId) -> Option<(Arc<Record>, Waiter)> {
        let number = id.first_position().number;
        // The number of another store's timer can be the same, and then its time is another one.
        self.puts.get(&number).filter(|put| put.record.id() == id)?;
        let Put { record, waiter, .. } = self.remove(number)?;
        if let (Waiter::Put(_), Some(key)) = (&waiter, &record.key) {
            self.keys.remove(key);
        }
        Some((record, waiter))
    }

    /// Takes those out that were to be added where there is none with this key.
    pub(super) fn elide_new(&mut self, key: &[u8]) -> Vec<Waiter> {
        let numbers = self.new_keys.get(key).cloned().unwrap_or_default();
        numbers.into_iter().filter_map(|number| self.remove(number)).map(|put| put.waiter).collect()
    }

    /// The same, by its key.
    pub(super) fn elide_key(&mut self, key: &[u8]) -> Option<(Arc<Record>, Waiter)> {
        let number = self.keys.get(key)?;
        let id = self.puts.get(number)?.record.id();
        self.elide(id)
    }

    /// This new timer should wait no longer, or something else.
    pub(super) fn hurry(&mut self, number: Option<u64>) {
        match number {
            None => self.is_urgent = true,
            Some(number) => {
                let Some(put) = self.puts.get_mut(&number) else { return };
                (put.is_urgent, self.has_urgent_put) = (true, true);
                // What came before it under its key is written first.
                if let (Waiter::New(_), Some(key)) = (&put.waiter, put.record.key.clone()) {
                    let news = self.new_keys.get(&key).into_iter().flatten();
                    let before = self.keys.get(&key).into_iter().chain(news);
                    let before: Vec<u64> = before.filter(|one| **one < number).copied().collect();
                    for number in before {
                        let put = self.puts.get_mut(&number);
                        put.into_iter().for_each(|put| put.is_urgent = true);
                    }
                }
            }
        }
    }

    /// How long it may take until something has to be written; `None`: there is nothing.
    ///
    /// A new timer is not written before `linger` has passed. Each change waits for longer than
    /// that, so that others are written with it.
    pub(super) fn wait(&self, linger: Duration) -> Option<Duration> {
        let is_called = self.is_called && self.is_ready(linger);
        if self.has_urgent_put || (self.is_urgent && self.since.is_some()) || is_called {
            return Some(Duration::ZERO);
        }
        let put = self.puts.first_key_value().map(|(_, put)| put.since);
        let since = put.into_iter().chain(self.since).min()?;
        Some((LINGERS * linger).saturating_sub(since.elapsed()))
    }

    /// Whether something here need not wait any longer.
    fn is_ready(&self, linger: Duration) -> bool {
        let put = self.puts.first_key_value().map(|(_, put)| put.since);
        self.since.is_some() || put.is_some_and(|since| since.elapsed() >= linger)
    }

    /// Others write now. Returns whether this is written with that.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(super) fn call(&mut self, linger: Duration) -> bool {
        self.is_called = !self.is_writing && self.is_ready(linger);
        self.is_called
    }

    /// How long the timers that others have added need not be read; `None`: there are none.
    pub(super) fn wait_for_reading(&self, linger: Duration, now_ms: u64) -> Option<Duration> {
        let first = self.there.iter().map(|position| position.due_ms).min()?;
        let left = first.saturating_sub(now_ms.saturating_add(AHEAD_MS));
        let is_due = linger.is_zero() || self.there.len() >= MANY;
        Some(Duration::from_millis(if is_due { 0 } else { left }))
    }

    pub(super) fn cancel(&mut self, id: TimerId, then: Then) {
        self.since.get_or_insert_with(Instant::now);
        self.cancelled_ids.insert(id);
        self.cancels.push(Unit { op: Op::Cancel(id), then });
    }

    pub(super) fn cancel_key(&mut self, key: Key, then: Then) {
        self.since.get_or_insert_with(Instant::now);
        self.cancelled_keys.insert(key.clone());
        self.cancels.push(Unit { op: Op::CancelKey(key), then });
    }

    /// Adds what became of a timer that has fired, or of a dead letter.
    pub(super) fn outcome(&mut self, op: Op, then: Then) {
        self.since.get_or_insert_with(Instant::now);
        self.outcomes.push(Unit { op, then });
    }

    /// A change could not be made yet, and is made with a later batch. What was asked for meanwhile
    /// may have made it void: then it is returned, and why.
    pub(super) fn put_off(&mut self, op: Op, then: Then) -> Option<(Then, Error)> {
        let void = match &then {
            Then::Admit(record, _) | Then::AdmitNew(record, _) => self.is_void(record),
            _ => None,
        };
        if let Some(error) = void {
            return Some((then, error));
        }
        match (op, then) {
            (_, Then::Admit(record, promise)) => {
                self.put(record, Waiter::Put(promise), false);
            }
            (_, Then::AdmitNew(record, promise)) => {
                self.put(record, Waiter::New(promise), false);
            }
            (Op::Cancel(id), then) => self.cancel(id, then),
            (Op::CancelKey(key), then) => self.cancel_key(key, then),
            (op, then) => self.outcome(op, then),
        }
        None
    }

    /// Whether a cancel has come after this new timer, or another one with its key.
    fn is_void(&self, record: &Record) -> Option<Error> {
        let is_cancelled = |key: &Key| self.cancelled_keys.contains(key);
        let is_replaced = |key: &Key| self.keys.contains_key(key);
        match &record.key {
            _ if self.cancelled_ids.contains(&record.id()) => Some(Error::Cancelled),
            Some(key) if is_cancelled(key) => Some(Error::Cancelled),
            Some(key) if is_replaced(key) => Some(Error::Replaced),
            _ => None,
        }
    }

    /// Whether this timer of the store is about to be taken out of it.
    pub(super) fn voids(&self, record: &Record) -> bool {
        let by_key = |key: &Key| self.keys.contains_key(key) || self.cancelled_keys.contains(key);
        self.cancelled_ids.contains(&record.id()) || record.key.as_ref().is_some_and(by_key)
    }

    /// Takes a batch: all that is here but the requests, and of the new timers at most `max_puts`:
    /// those that have waited for `linger`, or should not wait. Those that are left come after all
    /// that is taken, whatever their keys: a cancel would have elided them.
    pub(super) fn take(&mut self, linger: Duration, max_puts: usize) -> Vec<Unit> {
        let (requests, there) =
            (std::mem::take(&mut self.requests), std::mem::take(&mut self.there));
        let mut pending =
            std::mem::replace(self, Pending { requests, there, ..Pending::default() });
        let now = Instant::now();
        let is_ripe = |put: &Put| put.is_urgent || now.duration_since(put.since) >= linger;
        let ripe = pending.puts.iter().filter(|(_, put)| is_ripe(put)).take(max_puts);
        let ripe: Vec<u64> = ripe.map(|(number, _)| *number).collect();
        let ripe = ripe.into_iter().filter_map(|number| pending.remove(number));
        let ripe: Vec<Put> = ripe.collect();
        let replacing = ripe.iter().filter(|put| matches!(put.waiter, Waiter::Put(_)));
        for key in replacing.filter_map(|put| put.record.key.as_ref()) {
            pending.keys.remove(key);
        }
        (self.puts, self.keys, self.bytes) = (pending.puts, pending.keys, pending.bytes);
        self.new_keys = pending.new_keys;
        self.has_urgent_put = ripe.len() == max_puts && pending.has_urgent_put;
        let puts = ripe.into_iter().map(|Put { record, waiter, .. }| match waiter {
            Waiter::Put(promise) => {
                Unit { op: Op::Put(record.clone()), then: Then::Admit(record, promise) }
            }
            Waiter::New(promise) => {
                Unit { op: Op::PutNew(record.clone()), then: Then::AdmitNew(record, promise) }
            }
        });
        let outcomes = pending.outcomes.into_iter().chain(pending.cancels);
        let batch: Vec<Unit> = outcomes.chain(puts).collect();
        self.is_writing = !batch.is_empty();
        batch
    }
}

impl Waiter {
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Waiter::New(_))
    }

    /// Tells who waits why the timer is not written.
    pub(super) fn fail(self, error: Error) {
        match self {
            Waiter::Put(promise) => promise.keep(Err(error)),
            Waiter::New(promise) => promise.keep(Err(error)),
        }
    }
}

impl Then {
    /// Whether that is the next occurrence of the timer whose end this is.
    pub(super) fn is_before(&self, next: &Then) -> bool {
        match (self, next) {
            (Then::Recur(over), Then::AdmitNew(record, _)) => over.key == record.key,
            _ => false,
        }
    }

    /// Tells who waits that it did not work.
    pub(super) fn fail(self, error: Error) {
        match self {
            Then::Admit(_, promise) => promise.keep(Err(error)),
            Then::AdmitNew(_, promise) => promise.keep(Err(error)),
            Then::Cancel(_, promise) => promise.keep(Err(error)),
            Then::Forget(promise) | Then::Revive(_, promise) => promise.keep(Err(error)),
            Then::Leave(_) | Then::Recur(_) | Then::Retry(..) | Then::Begin(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others have added is read together, but before it is due.
    #[test]
    fn timers_of_others_are_read_when_one_is_due_soon_or_there_are_many() {
        let at = |due_ms| Position { due_ms, number: due_ms };
        let linger = Duration::from_millis(1);
        let mut pending = Pending::default();
        assert_eq!(pending.wait_for_reading(linger, 0), None);
        pending.there.extend([at(5000), at(9000)]);
        let left = |pending: &Pending, now_ms| pending.wait_for_reading(linger, now_ms).unwrap();
        assert_eq!(left(&pending, 1000), Duration::from_millis(4000 - AHEAD_MS));
        assert_eq!(left(&pending, 5000 - AHEAD_MS), Duration::ZERO);
        assert_eq!(left(&pending, u64::MAX), Duration::ZERO);
        assert_eq!(pending.wait_for_reading(Duration::ZERO, 0), Some(Duration::ZERO));
        pending.there.resize(MANY, at(9000));
        assert_eq!(left(&pending, 1000), Duration::ZERO);
    }
}
