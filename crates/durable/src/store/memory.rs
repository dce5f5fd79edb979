//! A store without a disk, for tests: it forgets what was not durable when it is told to crash.
//!
//! A [`Disk`] is what survives, and a [`Memory`] is one opening of it. After a crash, the store
//! that was open can do nothing more, and the next one finds what was durable.
//!
//! *Tested by*: the conformance suite.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Key, Record};

use super::contract::{Op, Store};
use super::list::{self, List};

/// What survives a crash. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

/// A store on a [`Disk`].
#[derive(Debug)]
pub struct Memory {
    disk: Disk,
    /// Which opening this is: an earlier one is dead.
    opening: u64,
}

/// What happens at the next commit, or at the beginning of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and nothing of the batch is durable.
    Lost,
    /// It fails after the batch has become durable.
    Kept,
}

#[derive(Debug, Default)]
struct State {
    tables: Tables,
    openings: u64,
    fault: Option<Fault>,
    commits: u64,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    sessions: u64,
    timers: BTreeMap<Position, Arc<Record>>,
    keys: BTreeMap<Key, Position>,
    numbers: BTreeMap<u64, Position>,
    letters: BTreeMap<Position, Arc<DeadLetter>>,
    pauses: BTreeSet<Key>,
}

// === impl Disk ===

impl Disk {
    /// Opens the store on this disk. One that was opened before can do nothing from then on.
    pub fn open(&self) -> Memory {
        let mut state = self.state();
        state.openings += 1;
        state.fault = None;
        Memory { disk: self.clone(), opening: state.openings }
    }

    /// The next commit, or beginning of a session, ends like that.
    pub fn fail_next(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    /// All timers that are durable.
    pub fn timers(&self) -> Vec<Record> {
        self.state().tables.timers.values().map(|record| (**record).clone()).collect()
    }

    /// Adds a timer behind the back of the store that is open, as another instance would.
    pub fn add(&self, record: Record) {
        self.change(&[Op::Put(Arc::new(record))]);
    }

    /// Takes a timer out behind the back of the store that is open.
    pub fn remove(&self, position: Position) {
        self.change(&[Op::Remove(position)]);
    }

    /// Changes something else behind the back of the store that is open.
    pub fn change(&self, batch: &[Op]) {
        let Ok(_) = list::apply(&mut self.state().tables, batch);
    }

    /// How many batches were made durable.
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Memory ===

impl Memory {
    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.disk.state();
        if state.openings != self.opening {
            return Err(StoreError::new(StoreErrorKind::Fenced, "the disk was opened again"));
        }
        Ok(state)
    }
}

impl Store for Memory {
    fn begin(&mut self) -> Result<u64, StoreError> {
        let mut state = self.state()?;
        let fault = state.fault.take();
        if fault != Some(Fault::Lost) {
            state.tables.sessions += 1;
        }
        fault.map_or(Ok(state.tables.sessions), |_| Err(failed()))
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let mut state = self.state()?;
        let fault = state.fault.take();
        if fault == Some(Fault::Lost) {
            return Err(failed());
        }
        let Ok(outcomes) = list::apply(&mut state.tables, batch);
        state.commits += 1;
        if fault == Some(Fault::Kept) { Err(failed()) } else { Ok(outcomes) }
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let state = self.state()?;
        let records = state.tables.timers.range(beyond(after)).take(limit);
        Ok(records.map(|(_, record)| (**record).clone()).collect())
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let state = self.state()?;
        let letters = state.tables.letters.range(beyond(after)).take(limit);
        Ok(letters.map(|(_, letter)| (**letter).clone()).collect())
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        Ok(self.state()?.tables.pauses.iter().cloned().collect())
    }

    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError> {
        let pauses = &mut self.state()?.tables.pauses;
        Ok(if is_paused { pauses.insert(prefix.clone()) } else { pauses.remove(prefix) })
    }
}

fn failed() -> StoreError {
    StoreError::new(StoreErrorKind::Io, "the disk has failed")
}

fn beyond(after: Option<Position>) -> (Bound<Position>, Bound<Position>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

// === impl Tables ===

impl List for Tables {
    type Error = Infallible;

    fn put(&mut self, record: &Arc<Record>) -> Result<(), Infallible> {
        if let Some(key) = &record.key {
            self.keys.insert(key.clone(), record.position);
        }
        self.numbers.insert(record.position.number, record.position);
        self.timers.insert(record.position, record.clone());
        Ok(())
    }

    fn bury(&mut self, letter: &Arc<DeadLetter>) -> Result<(), Infallible> {
        self.letters.insert(letter.record.position, letter.clone());
        Ok(())
    }

    fn take(&mut self, position: Position) -> Result<Option<Position>, Infallible> {
        let Some(record) = self.timers.remove(&position) else { return Ok(None) };
        self.numbers.remove(&position.number);
        if let Some(key) = &record.key {
            self.keys.remove(key);
        }
        Ok(Some(position))
    }

    fn take_id(&mut self, id: TimerId) -> Result<Option<Position>, Infallible> {
        let found = self.numbers.get(&id.first_position().number).copied();
        let found = found.filter(|position| self.timers[position].id() == id);
        found.map_or(Ok(None), |position| self.take(position))
    }

    fn find_key(&mut self, key: &Key) -> Result<Option<Position>, Infallible> {
        Ok(self.keys.get(key).copied())
    }

    fn take_key(&mut self, key: &Key) -> Result<Option<Position>, Infallible> {
        self.keys.get(key).copied().map_or(Ok(None), |position| self.take(position))
    }

    fn forget(&mut self, position: Position) -> Result<Option<Position>, Infallible> {
        Ok(self.letters.remove(&position).map(|_| position))
    }
}
