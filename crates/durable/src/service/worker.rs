//! The workers: threads that call the handler with what is due.
//!
//! *Owner*: each worker's thread, or a test that works by hand.
//!
//! A timer has one of three ends here, and each is a change that the writer makes durable: it is
//! removed, it is put off to its next attempt, or it becomes a dead letter. Until that is durable,
//! a crash brings the timer back.
//!
//! *Tested by*: `tests/durable/service.rs`, `tests/durable/oracle`.

use std::fmt::Display;
use std::sync::{Arc, PoisonError};

use crate::error::StoreError;
#[cfg(feature = "tokio")]
use crate::error::StoreErrorKind;
use crate::events;
use crate::foreign;
use crate::position::{END, Position, ms_at_or_after};
use crate::record::{DeadLetter, Record};
use crate::store::Op;

#[cfg(feature = "tokio")]
use super::core::Abort;
use super::core::{Core, Running, State};
use super::pauses::is_paused;
use super::pending::Then;
use super::retry::{Retry, Verdict};
use super::window::Next;

/// The handler, without the types of the payload and of its errors. When it is over, now or later,
/// it calls [`Core::over`].
pub(super) type Run = dyn Fn(&Arc<Core>, Arc<Record>) + Send + Sync;

/// Whether the handler was called. It was not if this instance may not have timers fire any more.
type Ran = Result<(), StoreError>;

/// Why a timer is not over.
pub(super) enum Failure {
    Handler(Verdict),
    /// The payload cannot be read, and no handler has had it.
    Payload(String),
}

// === impl Failure ===

impl Failure {
    pub(super) fn of_handler(retry: impl Into<Retry>) -> Failure {
        Failure::Handler(retry.into().0)
    }

    pub(super) fn panicked(text: &str) -> Failure {
        Failure::of_handler(format!("panicked: {text}"))
    }

    pub(super) fn of_payload(error: &dyn Display) -> Failure {
        Failure::Payload(format!("the payload cannot be read: {error}"))
    }

    /// `None`: the handler has put it off.
    fn error(&self) -> Option<&str> {
        match self {
            Failure::Handler(Verdict::Failed(error) | Verdict::Never(error))
            | Failure::Payload(error) => Some(error),
            Failure::Handler(Verdict::Later(_)) => None,
        }
    }
}

// === impl Core: working ===

impl Core {
    /// Works until the service is closed or has failed.
    pub(super) fn work(self: &Arc<Core>, run: &Run) {
        while self.wait_for_work() {
            self.work_once(run);
        }
    }

    fn wait_for_work(&self) -> bool {
        let mut state = self.state();
        loop {
            if state.is_closed || state.failure.is_some() {
                state.workers -= 1;
                drop(state);
                self.end_bell.notify_all();
                return false;
            }
            let has_room = state.running.len() < self.config.tasks.unwrap_or(usize::MAX);
            if has_room && state.window.is_anything_ready() {
                return true;
            }
            state = self.worker_bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Handles the next timer that is due, if there is one.
    pub(super) fn work_once(self: &Arc<Core>, run: &Run) -> bool {
        if let Err(error) = self.may_fire() {
            self.fail(&error);
            return false;
        }
        let Some(record) = self.begin() else { return false };
        self.served(|| run(self, record));
        true
    }

    /// A handler is over, or was not called.
    pub(super) fn over(&self, record: &Record, result: Result<Ran, Failure>) {
        match result {
            Ok(Ok(())) => self.finish(record, Ok(())),
            Ok(Err(error)) => {
                let mut state = self.state();
                state.running.remove(&record.position.number);
                state.stats.fired -= 1;
                drop(state);
                self.fail(&error);
            }
            Err(failure) => self.finish(record, Err(failure)),
        }
        self.has_room();
    }

    /// A task leaves room for another, and an end may wait for it.
    fn has_room(&self) {
        if self.config.tasks.is_some() {
            self.worker_bell.notify_one();
            self.end_bell.notify_all();
        }
    }

    /// A task was aborted: by the end of the service, or else by that of its runtime.
    #[cfg(feature = "tokio")]
    pub(super) fn aborted(&self, record: &Record) {
        let mut state = self.state();
        state.running.remove(&record.position.number);
        let is_ending = state.failure.is_some() || state.is_closed;
        drop(state);
        if !is_ending {
            let message = "the runtime on which handlers run has ended";
            self.fail(&StoreError::new(StoreErrorKind::Io, message));
        }
        self.has_room();
    }

    /// A handler that runs can be ended from outside.
    #[cfg(feature = "tokio")]
    pub(super) fn can_abort(&self, record: &Record, abort: Abort) {
        let mut state = self.state();
        let is_over = state.failure.is_some();
        if let Some(running) = state.running.get_mut(&record.position.number)
            && !is_over
        {
            running.abort = Some(abort);
            return;
        }
        drop(state);
        if is_over {
            abort();
        }
    }

    pub(super) fn may_fire(&self) -> Result<(), StoreError> {
        self.config.share.as_ref().map_or(Ok(()), |share| share.may_fire())
    }

    fn begin(self: &Arc<Core>) -> Option<Arc<Record>> {
        let mut state = self.state();
        if state.is_closed || state.failure.is_some() {
            return None;
        }
        loop {
            let State { window, numbers, pauses, .. } = &mut *state;
            let is_suspect = |record: &Record| self.is_suspect(numbers, record);
            let next = window.begin(is_suspect, |record| is_paused(pauses, record))?;
            let (Next::Run(record) | Next::Note(record)) = &next;
            let position = record.position;
            if position.due_ms > self.now_ms() {
                state.window.put_back(position, self.arm(position));
                self.set_alarm(&mut state);
                continue;
            }
            match next {
                Next::Run(record) => {
                    #[cfg(feature = "metrics")]
                    if let Some([late, _]) = self.histograms.get() {
                        late.record(self.now_ms().saturating_sub(position.due_ms) as f64 / 1e3);
                    }
                    state.stats.fired += 1;
                    state.running.insert(position.number, Running::begin());
                    return Some(record);
                }
                Next::Note(record) => self.note(&mut state, &record),
            }
        }
    }

    /// Writes that the handler is about to run, which it then does. A timer that was cut off too
    /// often becomes a dead letter.
    fn note(&self, state: &mut State, record: &Record) {
        let from = record.position;
        if record.crashes >= self.config.crashes {
            state.window.done(from);
            state.stats.buried += 1;
            let error = format!("the process ended during {} attempts in a row", record.crashes);
            let letter = Arc::new(DeadLetter::new(record.clone(), error));
            state.pending.outcome(Op::Bury { from, letter }, self.leave(record));
        } else {
            state.stats.noted += 1;
            let to =
                Arc::new(Record { crashes: record.crashes + 1, tried: true, ..record.clone() });
            state.pending.outcome(Op::Move { from, to }, Then::Begin(from));
        }
        state.pending.hurry(None);
        self.writer_bell.notify_one();
    }

    /// Notes what became of a timer, to be written.
    fn finish(&self, record: &Record, result: Result<(), Failure>) {
        let error = result.as_ref().err().and_then(Failure::error);
        if let Some(error) = error {
            events::failed(&self.config.thread_name, record, error);
        }
        let has_failed = error.is_some();
        let position = record.position;
        let change = result.as_ref().map_or_else(
            |failure| self.after_failure(record, failure),
            |()| (Op::Remove(position), self.leave(record)),
        );
        let mut state = self.state();
        let _running = state.running.remove(&position.number);
        #[cfg(feature = "metrics")]
        if let (Some([_, took]), Some(running)) = (self.histograms.get(), _running) {
            took.record(running.since.elapsed());
        }
        state.stats.failed += u64::from(has_failed);
        if state.failure.is_some() || !state.window.done(position) {
            return;
        }
        state.stats.buried += u64::from(matches!(change.0, Op::Bury { .. }));
        state.stats.retried += u64::from(matches!(change.0, Op::Move { .. }));
        // An occurrence is written together with the end of the one before.
        let is_soon = match &change.1 {
            Then::Recur(_) => true,
            Then::Retry(_, to) => self.is_soon(to.position.due_ms),
            _ => false,
        };
        state.pending.outcome(change.0, change.1);
        if is_soon {
            state.pending.hurry(None);
        }
        drop(state);
        self.writer_bell.notify_one();
    }

    /// The timer is over.
    fn leave(&self, record: &Record) -> Then {
        let recurs = record.key.as_ref().is_some_and(|key| self.config.recurring.contains_key(key));
        if recurs { Then::Recur(Arc::new(record.clone())) } else { Then::Leave(record.position) }
    }

    fn after_failure(&self, record: &Record, failure: &Failure) -> (Op, Then) {
        let from = record.position;
        let limits = self.config.limits.as_ref().map(|limits| foreign::call(|| limits(record)));
        // What panics there has no limits of its own.
        let limits = limits.and_then(Result::ok).unwrap_or_default();
        let pause = match failure {
            Failure::Handler(Verdict::Later(pause)) => Some(*pause),
            Failure::Handler(Verdict::Failed(_)) => {
                let before = record.attempt.saturating_sub(1) as usize;
                let is_left = record.attempt < limits.attempts.unwrap_or(self.config.attempts);
                is_left.then(|| self.config.backoff.delays().nth(before).unwrap_or_default())
            }
            Failure::Handler(Verdict::Never(_)) | Failure::Payload(_) => None,
        };
        let due = pause.map(|pause| self.now().checked_add(pause));
        let due_ms = due.map(|due| due.map_or(END - 1, ms_at_or_after));
        let is_in_time = |due_ms: &u64| {
            let within_ms = limits.within.map_or(u128::MAX, |within| within.as_millis());
            u128::from(due_ms.saturating_sub(record.first_due_ms)) <= within_ms
        };
        let errors = match failure.error() {
            Some(error) => record.errors_with(self.now_ms(), error),
            None => record.errors.clone(),
        };
        let Some(due_ms) = due_ms.filter(is_in_time) else {
            // What could not be read was not handed to the handler.
            let tried = record.tried || matches!(failure, Failure::Handler(_));
            let error = failure.error().unwrap_or("it was put off for longer than it may be");
            let letter = DeadLetter::new(Record { tried, errors, ..record.clone() }, error);
            return (Op::Bury { from, letter: Arc::new(letter) }, self.leave(record));
        };
        let position = Position { due_ms, number: from.number };
        let attempt = record.attempt + u32::from(failure.error().is_some());
        let to = Record { position, attempt, crashes: 0, tried: true, errors, ..record.clone() };
        let to = Arc::new(to);
        (Op::Move { from, to: to.clone() }, Then::Retry(from, to))
    }
}
