//! The writer: the one thread that has the store.
//!
//! Each step takes the whole batch that was gathered, commits it without the lock, admits to the
//! window what is durable now, and keeps the promises. Then it reads on if the window is half
//! empty. Because the same thread commits and reads, a timer is either committed before a refill
//! reads on, and read if it is beyond the frontier, or admitted after it if it is not.
//!
//! *Owner*: the writer's thread, or a test that makes the steps by hand.
//!
//! *Tested by*: `tests/durable/oracle`, `tests/durable/faults.rs`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::error::{Error, StoreError, StoreErrorKind};
use crate::events;
use crate::position::{Position, TimerId};
use crate::promise::{Promise, promise};
use crate::record::Record;
use crate::store::{Op, Store};

use super::cancelled::Cancelled;
use super::core::{Core, State};
use super::pending::{Then, Unit};
use super::reading::called;
use super::unreadable;
use super::unseen::Unseen;
use super::window::Found;

/// How many records are read at a time. Between two reads, batches are written.
const PAGE: usize = 1024;

/// How often it looks for dead letters that are too old, while it works and none is added.
const PRUNING_MS: u64 = 60_000;

pub(super) struct Writer<S> {
    pub(super) core: Arc<Core>,
    pub(super) store: S,
    /// When to look for dead letters that are too old.
    next_pruning_ms: u64,
}

/// What a change has taken out.
type Outcome = Option<Position>;

/// A promise that can be kept, when the lock is released.
enum Kept {
    Admitted(Promise<()>),
    New(Promise<Option<TimerId>>, Option<TimerId>),
    Cancelled(Promise<Cancelled>, Cancelled),
    Forgotten(Promise<bool>, bool),
}

/// What woke the writer.
#[derive(PartialEq, Eq)]
enum Wake {
    Work,
    End,
}

// === impl Writer ===

impl<S: Store> Writer<S> {
    pub(super) fn new(core: Arc<Core>, store: S) -> Writer<S> {
        Writer { core, store, next_pruning_ms: 0 }
    }

    /// Works until the service ends or the store fails.
    pub(super) fn run(mut self) {
        self.core.serve();
        while self.sleep() == Wake::Work {
            if let Err(error) = called(|| self.step()) {
                return self.core.fail(&error);
            }
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&self) -> Wake {
        let core = &self.core;
        let mut state = core.state();
        loop {
            let is_over = state.is_ending && state.pending.is_empty();
            if is_over {
                return Wake::End;
            }
            let now_ms = core.now_ms();
            let can_prune = core.config.keep_letters.is_some() && self.next_pruning_ms == 0;
            let can_refill = can_prune || state.window.refill(now_ms).is_some();
            let can_refill = can_refill && !state.is_closed;
            if can_refill || state.numbers.is_used_up() || !state.pending.requests.is_empty() {
                return Wake::Work;
            }
            let linger = core.config.linger;
            let reading = state.pending.wait_for_reading(linger, now_ms);
            let reading = reading.filter(|_| !state.is_closed);
            let writing = state.pending.wait(linger);
            state = match reading.into_iter().chain(writing).min() {
                None => core.writer_bell.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if !(left.is_zero() || state.is_ending) => {
                    let woken = core.writer_bell.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => return Wake::Work,
            };
        }
    }

    /// Writes what is pending, serves requests, and reads on.
    pub(super) fn step(&mut self) -> Result<(), StoreError> {
        self.write()?;
        self.serve()?;
        self.refill()?;
        self.prune()?;
        if self.core.state().numbers.is_used_up() {
            self.go_on()?;
        }
        Ok(())
    }

    /// Begins another session, for more numbers.
    fn go_on(&mut self) -> Result<(), StoreError> {
        let session = called(|| self.store.begin())?;
        self.core.state().numbers.go_on(session)
    }

    // --- writing ---

    fn write(&mut self) -> Result<(), StoreError> {
        let units = {
            let mut state = self.core.state();
            let config = &self.core.config;
            let linger = if state.is_closed { Duration::ZERO } else { config.linger };
            // This step may be for reading alone. Who asks for something sees what was done before.
            let is_early = state.pending.wait(linger).is_none_or(|left| !left.is_zero());
            if is_early && state.pending.requests.is_empty() {
                return Ok(());
            }
            let units = state.pending.take(linger, config.batch);
            if units.is_empty() {
                return Ok(());
            }
            state.window.told.begin_writing();
            units
        };
        let mut begun = Ok(());
        let (mut ops, mut thens) = (Vec::new(), Vec::new());
        for unit in units {
            let next = begun.clone().and_then(|()| self.next_of(&unit.then));
            let next = next.unwrap_or_else(|error| {
                begun = Err(error);
                None
            });
            for Unit { op, then } in std::iter::once(unit).chain(next) {
                ops.push(op);
                thens.push(then);
            }
        }
        let outcomes = match begun.and_then(|()| self.commit(&ops, &thens)) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                thens.into_iter().for_each(|then| then.fail(Error::Store(error.clone())));
                return Err(error);
            }
        };
        for (op, outcome) in ops.iter().zip(&outcomes) {
            if let (Op::Bury { letter, .. }, Some(Some(_))) = (op, outcome) {
                events::died(&self.core.config.thread_name, letter);
                self.next_pruning_ms = 0;
            }
        }
        let (mut kept, mut refused) = (Vec::new(), Vec::new());
        {
            let mut state = self.core.state();
            let unsettled = state.end_writing();
            let mut units = ops.into_iter().zip(thens).zip(outcomes).peekable();
            while let Some(((op, then), outcome)) = units.next() {
                if let Some(outcome) = outcome {
                    kept.extend(self.apply(&mut state, then, outcome, &unsettled));
                    continue;
                }
                let is_next = |((_, next), _): &((Op, Then), _)| then.is_before(next);
                drop(units.next_if(is_next));
                if state.is_ending {
                    refused.push((then, Error::Stopped));
                } else {
                    refused.extend(state.pending.put_off(op, then));
                }
            }
            self.core.set_alarm(&mut state);
            if state.window.is_anything_ready() {
                self.core.worker_bell.notify_all();
            }
        }
        kept.into_iter().for_each(Kept::keep);
        refused.into_iter().for_each(|(then, error)| then.fail(error));
        Ok(())
    }

    /// Commits a batch. Where somebody else's transaction has what some of it is about, all the
    /// rest is committed, in halves, and for these changes there is `None`.
    fn commit(&mut self, ops: &[Op], thens: &[Then]) -> Result<Vec<Option<Outcome>>, StoreError> {
        let is_shared = self.core.config.share.is_some();
        match called(|| self.store.commit(ops)) {
            Ok(outcomes) if outcomes.len() == ops.len() => {
                Ok(outcomes.into_iter().map(Some).collect())
            }
            Ok(_) => Err(StoreError::new(StoreErrorKind::Io, "the store tells too little")),
            Err(error) if is_shared && error.kind() == StoreErrorKind::InUse => {
                let mut middle = ops.len() / 2;
                // An occurrence and the next one stay together.
                middle += usize::from(middle > 0 && thens[middle - 1].is_before(&thens[middle]));
                if middle == 0 || middle == ops.len() {
                    return Ok(vec![None; ops.len()]);
                }
                let mut outcomes = self.commit(&ops[..middle], &thens[..middle])?;
                outcomes.extend(self.commit(&ops[middle..], &thens[middle..])?);
                Ok(outcomes)
            }
            Err(error) => Err(error),
        }
    }

    /// After the end of an occurrence the next one, which is added only if its name has no other
    /// timer by now.
    fn next_of(&mut self, then: &Then) -> Result<Option<Unit>, StoreError> {
        let core = self.core.clone();
        let Then::Recur(over) = then else { return Ok(None) };
        let Some(key) = &over.key else { return Ok(None) };
        let Some(recurring) = core.config.recurring.get(key) else { return Ok(None) };
        let number = loop {
            let number = core.state().numbers.take();
            match number {
                Some(number) => break number,
                None => self.go_on()?,
            }
        };
        // The clock may have been set back since.
        let next = recurring.after(key, core.now().max(over.first_due()), number);
        let then = |record: Arc<Record>| Then::AdmitNew(record, promise(&core).0);
        Ok(next.map(|next| Unit { op: Op::PutNew(next.clone()), then: then(next) }))
    }

    /// A change is durable, and took out what was at `outcome`.
    fn apply(
        &self,
        state: &mut State,
        then: Then,
        outcome: Option<Position>,
        unsettled: &Unseen,
    ) -> Option<Kept> {
        let admit = |state: &mut State, record: Arc<Record>| {
            if state.window.covers(record.position) && !unsettled.has_taken(record.position) {
                self.core.admit(state, record);
            }
        };
        match then {
            Then::Admit(record, promise) => {
                state.stats.stored += 1;
                if let Some(replaced) = outcome {
                    state.window.cancel_at(replaced);
                }
                admit(state, record);
                Some(Kept::Admitted(promise))
            }
            Then::AdmitNew(record, promise) => {
                let id = outcome.is_none().then(|| record.id());
                if id.is_some() {
                    state.stats.stored += 1;
                    admit(state, record);
                }
                Some(Kept::New(promise, id))
            }
            Then::Leave(position) => {
                state.window.depart(position);
                None
            }
            Then::Recur(over) => {
                state.window.depart(over.position);
                None
            }
            Then::Retry(from, to) => {
                state.window.depart(from);
                // Else it was cancelled or replaced before.
                if outcome.is_some() {
                    admit(state, to);
                }
                None
            }
            Then::Begin(position) => {
                state.window.noted(position, outcome.is_some());
                None
            }
            Then::Cancel(known, promise) => {
                let found = outcome.map_or(Found::Unknown, |place| state.window.cancel_at(place));
                let cancelled = known.unwrap_or(match (outcome, found) {
                    (None, _) => Cancelled::NotFound,
                    (Some(_), Found::Running) => Cancelled::Running,
                    (Some(_), _) => Cancelled::Cancelled,
                });
                Some(Kept::Cancelled(promise, cancelled))
            }
            Then::Forget(promise) => Some(Kept::Forgotten(promise, outcome.is_some())),
            Then::Revive(record, promise) => {
                // Else another was quicker, who may be another instance.
                if outcome.is_some() {
                    state.stats.stored += 1;
                    admit(state, record);
                }
                Some(Kept::Forgotten(promise, outcome.is_some()))
            }
        }
    }

    // --- requests ---

    fn serve(&mut self) -> Result<(), StoreError> {
        self.read_there()?;
        let requests = std::mem::take(&mut self.core.state().pending.requests);
        let mut served = Ok(());
        for question in requests {
            served = match served {
                Ok(()) => question.ask(&mut self.store),
                Err(error) => {
                    question.fail(Error::Store(error.clone()));
                    Err(error)
                }
            };
        }
        served
    }

    // --- pruning ---

    /// Throws dead letters away that are older than they may be, a page at a time.
    fn prune(&mut self) -> Result<(), StoreError> {
        let Some(keep) = self.core.config.keep_letters else { return Ok(()) };
        let now_ms = self.core.now_ms();
        if now_ms < self.next_pruning_ms || self.core.state().is_closed {
            return Ok(());
        }
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let before_ms = now_ms.saturating_sub(keep_ms);
        // One that cannot be read is no reason to end, and none behind it is found.
        let letters = called(|| self.store.dead_letters(None, PAGE)).unwrap_or_default();
        let is_old = |position: &Position| position.due_ms < before_ms;
        let old = letters.iter().map(|letter| letter.record.position).take_while(is_old);
        let old: Vec<Op> = old.map(Op::Forget).collect();
        let is_more = old.len() == PAGE;
        self.next_pruning_ms = if is_more { 0 } else { now_ms.saturating_add(PRUNING_MS) };
        match called(|| self.store.commit(&old)) {
            // Somebody else changes them.
            Err(error) if error.kind() == StoreErrorKind::InUse => {
                self.next_pruning_ms = now_ms.saturating_add(PRUNING_MS);
                Ok(())
            }
            committed => committed.map(drop),
        }
    }

    // --- reading ---

    /// Reads the timers that others have added, if it is time for that.
    fn read_there(&mut self) -> Result<(), StoreError> {
        let core = self.core.clone();
        let positions = {
            let mut state = core.state();
            let left = state.pending.wait_for_reading(core.config.linger, core.now_ms());
            if state.is_closed || !left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            state.window.told.begin_reading();
            std::mem::take(&mut state.pending.there)
        };
        let (found, buried) = unreadable::read(&mut self.store, &positions)?;
        let mut state = core.state();
        state.stats.buried += buried;
        let unseen = state.window.told.end_reading();
        for record in found {
            if state.window.covers(record.position) && !unseen.has_taken(record.position) {
                core.admit(&mut state, Arc::new(record));
            }
        }
        core.set_alarm(&mut state);
        Ok(())
    }

    /// Reads one page into the window, if it is time for that.
    fn refill(&mut self) -> Result<(), StoreError> {
        let core = self.core.clone();
        let wanted = {
            let mut state = core.state();
            let wanted = if state.is_closed { None } else { state.window.refill(core.now_ms()) };
            if wanted.is_some() {
                state.window.told.begin_reading();
            }
            wanted
        };
        let Some((after, room)) = wanted else { return Ok(()) };
        let limit = room.min(PAGE);
        let (mut records, buried) = unreadable::scan(&mut self.store, Some(after), limit)?;
        let is_last = records.len() < limit;
        let mut state = core.state();
        state.stats.buried += buried;
        let Some(unseen) = state.window.end_reading(after) else { return Ok(()) };
        state.stats.refills += 1;
        records.retain(|record| !unseen.has_taken(record.position));
        if self.admit_page(&mut state, records) && is_last {
            state.window.advance(Position::LAST);
        }
        state.window.see(&unseen);
        core.set_alarm(&mut state);
        Ok(())
    }

    /// Returns whether there is room for more.
    fn admit_page(&self, state: &mut State, records: Vec<Record>) -> bool {
        let now_ms = self.core.now_ms();
        for record in records {
            let position = record.position;
            state.window.advance(position);
            self.core.admit(state, Arc::new(record));
            // It is too far away, or there is no room: it and the rest stay where they are.
            let is_beyond = self.core.is_beyond(position, now_ms).is_some();
            if is_beyond || !state.window.covers(position) {
                return false;
            }
        }
        true
    }
}

impl Kept {
    fn keep(self) {
        match self {
            Kept::Admitted(promise) => promise.keep(Ok(())),
            Kept::New(promise, id) => promise.keep(Ok(id)),
            Kept::Cancelled(promise, cancelled) => promise.keep(Ok(cancelled)),
            Kept::Forgotten(promise, was_there) => promise.keep(Ok(was_there)),
        }
    }
}
