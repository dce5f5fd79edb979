//! What a user holds of a service: each call is a change that is to be written, or a question to
//! the store, and the writer does it.
//!
//! *Owner*: any thread.
//!
//! *Tested by*: `tests/durable/service.rs`, `tests/durable/looking.rs`, `tests/durable/absent.rs`.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, ScheduleError, ScheduleReason, StopError, StoreError};
use crate::payload::Payload;
use crate::position::{Position, TimerId, ms_at_or_after};
use crate::promise::{Promise, Reply, Ticket, promise};
use crate::record::{DeadLetter, Key, Record};
use crate::store::{Contents, Op, Store};

use super::cancelled::Cancelled;
use super::core::{Core, State};
use super::owner::Owner;
use super::pending::{Then, Waiter};
use super::reading::question;
use super::stats::Stats;
use super::unreadable;
use super::window::Found;

/// Timers that survive a restart.
///
/// They are kept in a [`Store`](crate::Store), and a handler is called with each one that is due.
/// See the [crate's documentation](crate) for what is promised.
///
/// Clones share the service. When the last one is dropped, the service stops as by
/// [`stop`](Durable::stop), which waits for the handlers that run. Inside a task of an asynchronous
/// program, that blocks a thread of its runtime.
pub struct Durable<P = Vec<u8>> {
    pub(super) core: Arc<Core>,
    /// A handler's has none.
    owner: Option<Arc<Owner>>,
    payload: PhantomData<fn(P) -> P>,
}

// === impl Durable ===

impl<P: Payload> Durable<P> {
    /// Schedules a timer for a time of the wall clock, rounded up to a millisecond. A time that has
    /// passed is due at once.
    ///
    /// The timer is durable, and can fire, when the ticket is ready. It follows the wall clock: if
    /// that is set, the timer is due when the clock shows its time.
    ///
    /// # Errors
    /// The service has stopped or failed, or the payload cannot be written, or it has more than
    /// 256 MiB, or too much waits to be written ([`ScheduleReason::Busy`]).
    pub fn schedule(&self, at: SystemTime, payload: P) -> Result<Ticket, ScheduleError<P>> {
        self.enter(None, at, payload)
    }

    /// Schedules a timer under a key. The timer that has this key, if there is one, is replaced:
    /// from this call on it does not begin to fire, and it leaves the store in the same moment in
    /// which this one becomes durable. If its handler is running, it is not tried again.
    ///
    /// # Errors
    /// As [`schedule`](Durable::schedule). A key can have 256 MiB as well.
    pub fn schedule_keyed(
        &self,
        key: impl AsRef<[u8]>,
        at: SystemTime,
        payload: P,
    ) -> Result<Ticket, ScheduleError<P>> {
        self.enter(Some(key.as_ref().into()), at, payload)
    }

    /// Schedules a timer under a key if no timer has this key. The reply is ready when that is
    /// decided and durable: it has the timer's number, or `None` if there is one already, which
    /// stays as it is. A timer that is tried again has its key, and one whose handler runs has it
    /// until that is over; a dead letter has none.
    ///
    /// If the timer is cancelled before it is written, by its key, the reply is
    /// [`Error::Cancelled`](Error::Cancelled).
    ///
    /// # Errors
    /// As [`schedule_keyed`](Durable::schedule_keyed).
    pub fn schedule_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        at: SystemTime,
        payload: P,
    ) -> Result<Reply<Option<TimerId>>, ScheduleError<P>> {
        let key: Key = key.as_ref().into();
        bytes_of(Some(&key), &payload)
            .and_then(|bytes| self.enter_new(key, ms_at_or_after(at), bytes))
            .map_err(|reason| ScheduleError { payload, reason })
    }

    fn enter(
        &self,
        key: Option<Key>,
        at: SystemTime,
        payload: P,
    ) -> Result<Ticket, ScheduleError<P>> {
        bytes_of(key.as_deref(), &payload)
            .and_then(|bytes| self.enter_bytes(key, ms_at_or_after(at), bytes))
            .map_err(|reason| ScheduleError { payload, reason })
    }
}

/// How long a key or a payload may be. Stores and databases have limits of their own beyond that,
/// and what exceeds those would fail the store for everybody.
const MAX_BYTES: usize = 256 << 20;

/// The payload as bytes, if a store has room for it and for the key.
pub(crate) fn bytes_of<P: Payload>(
    key: Option<&[u8]>,
    payload: &P,
) -> Result<Arc<[u8]>, ScheduleReason> {
    let bytes = payload.to_bytes();
    let bytes = bytes.map_err(|error| ScheduleReason::Payload(error.to_string()))?;
    if bytes.len().max(key.map_or(0, <[u8]>::len)) > MAX_BYTES {
        return Err(ScheduleReason::Payload(format!("more than {MAX_BYTES} bytes")));
    }
    Ok(bytes.into())
}

impl<P> Durable<P> {
    pub(super) fn owned(core: Arc<Core>, owner: Arc<Owner>) -> Durable<P> {
        Durable { core, owner: Some(owner), payload: PhantomData }
    }

    pub(super) fn borrowed(core: &Arc<Core>) -> Durable<P> {
        Durable { core: core.clone(), owner: None, payload: PhantomData }
    }

    pub(crate) fn enter_bytes(
        &self,
        key: Option<Key>,
        due_ms: u64,
        payload: Arc<[u8]>,
    ) -> Result<Ticket, ScheduleReason> {
        let (promise, reply) = promise(&self.core);
        let waiter = Waiter::Put(promise);
        Ok(Ticket::new(self.enter_record(key, due_ms, payload, waiter)?, reply))
    }

    /// The same, unless there is a timer with this key.
    pub(crate) fn enter_new(
        &self,
        key: Key,
        due_ms: u64,
        payload: Arc<[u8]>,
    ) -> Result<Reply<Option<TimerId>>, ScheduleReason> {
        let (promise, reply) = promise(&self.core);
        let id = self.enter_record(Some(key), due_ms, payload, Waiter::New(promise))?;
        Ok(reply.about(id))
    }

    fn enter_record(
        &self,
        key: Option<Key>,
        due_ms: u64,
        payload: Arc<[u8]>,
        waiter: Waiter,
    ) -> Result<TimerId, ScheduleReason> {
        let core = &self.core;
        let is_soon = core.is_soon(due_ms);
        let mut state = core.state();
        if let Some(reason) = state.refusal() {
            return Err(reason);
        }
        let is_full = state.pending.puts() >= core.config.max_unwritten
            || state.pending.put_bytes() >= core.config.max_unwritten_bytes;
        let number = if is_full { None } else { state.numbers.take() };
        let number = number.ok_or(ScheduleReason::Busy)?;
        state.stats.scheduled += 1;
        if let (Waiter::Put(_), Some(key)) = (&waiter, &key) {
            state.window.cancel_key(key);
        }
        let position = Position { due_ms, number };
        let record = Record::new(position, key, payload);
        let id = record.id();
        let was_empty = state.pending.changes() == 0;
        let replaced = state.pending.put(Arc::new(record), waiter, is_soon);
        state.stats.elided += u64::from(replaced.is_some());
        drop(state);
        // Otherwise the writer knows how long it may sleep.
        if is_soon || was_empty {
            core.writer_bell.notify_one();
        }
        if let Some(replaced) = replaced {
            replaced.fail(Error::Replaced);
        }
        Ok(id)
    }

    // --- cancelling ---

    /// Cancels the timer with this number, also if an earlier process has scheduled it.
    ///
    /// With a timer that has a key, the one that it has replaced is gone, too.
    ///
    /// From this call on, the timer does not begin to fire. A timer that is not written yet never
    /// will be. The reply is ready when the cancel is durable; before that, a crash can bring the
    /// timer back.
    pub fn cancel(&self, id: TimerId) -> Reply<Cancelled> {
        self.take_out(
            |state| (state.pending.elide(id), Vec::new()),
            |state| state.window.cancel(id),
            |state, then| state.pending.cancel(id, then),
        )
    }

    /// Cancels the timer with this key: see [`cancel`](Durable::cancel).
    pub fn cancel_key(&self, key: impl AsRef<[u8]>) -> Reply<Cancelled> {
        let key: Key = key.as_ref().into();
        self.take_out(
            |state| {
                let news = state.pending.elide_new(&key);
                (state.pending.elide_key(&key), news)
            },
            |state| state.window.cancel_key(&key),
            |state, then| state.pending.cancel_key(key.clone(), then),
        )
    }

    fn take_out(
        &self,
        elide: impl Fn(&mut State) -> (Option<(Arc<Record>, Waiter)>, Vec<Waiter>),
        find: impl Fn(&mut State) -> Found,
        write: impl Fn(&mut State, Then),
    ) -> Reply<Cancelled> {
        let (promise, reply) = promise(&self.core);
        let mut state = self.core.state();
        let promise = match state.refuse(promise) {
            Ok(promise) => promise,
            Err(refused) => {
                drop(state);
                refused.tell();
                return reply;
            }
        };
        let mut at_once = None;
        let was_empty = state.pending.changes() == 0;
        let (elided, news) = elide(&mut state);
        match &elided {
            // It was never in the store, and would have replaced nothing.
            Some((record, waiter)) if record.key.is_none() || waiter.is_new() => {
                at_once = Some(promise);
            }
            // What it would have replaced is in the store, perhaps.
            Some((record, _)) => {
                let key = record.key.clone().expect("it was looked at");
                let then = Then::Cancel(Some(Cancelled::Cancelled), promise);
                state.pending.cancel_key(key, then);
            }
            None => {
                let known = match find(&mut state) {
                    Found::Idle => Some(Cancelled::Cancelled),
                    Found::Running => Some(Cancelled::Running),
                    // One that was to be added only where there is none.
                    Found::Unknown => (!news.is_empty()).then_some(Cancelled::Cancelled),
                };
                write(&mut state, Then::Cancel(known, promise));
            }
        }
        state.stats.elided += u64::from(elided.is_some()) + news.len() as u64;
        drop(state);
        if was_empty {
            self.core.writer_bell.notify_one();
        }
        for waiter in elided.map(|(_, waiter)| waiter).into_iter().chain(news) {
            waiter.fail(Error::Cancelled);
        }
        if let Some(promise) = at_once {
            promise.keep(Ok(Cancelled::Cancelled));
        }
        reply
    }

    // --- looking ---

    /// Reads the timers of the store after a position, in the order in which they are due, at most
    /// `limit`. `None`: from the beginning on; [`Position::before_all_at`]: from a time on. To read
    /// on, pass the position of the last one.
    ///
    /// This is what is durable: a timer is in it when its ticket is ready, and no longer when its
    /// end is written. A record that cannot be read becomes a dead letter, as when the service
    /// meets it.
    pub fn list(&self, after: Option<Position>, limit: usize) -> Reply<Vec<Record>> {
        self.look(move |store| unreadable::scan(store, after, limit).map(|(found, _)| found))
    }

    /// Looks a timer up. `None`: it is over, or it never became durable.
    pub fn get(&self, id: TimerId) -> Reply<Option<Record>> {
        self.look(move |store| store.get(id))
    }

    /// Counts what is in the store, and says when the first timer is due. A store counts its rows
    /// for that, except for redb's, which knows.
    pub fn contents(&self) -> Reply<Contents> {
        self.look(|store| store.contents())
    }

    pub(super) fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Reply<T> {
        self.ask(|state, promise| state.pending.requests.push(question(promise, look)))
    }

    // --- dead letters ---

    /// Reads the dead letters: the timers that have failed too often, after that one, in the order
    /// of their last attempts, at most `limit`.
    pub fn dead_letters(&self, after: Option<&DeadLetter>, limit: usize) -> Reply<Vec<DeadLetter>> {
        let after = after.map(|letter| letter.record.position);
        self.look(move |store| store.dead_letters(after, limit))
    }

    /// Makes a timer of a dead letter again, with all its attempts and the same number, but without
    /// its key, which another timer may have by now. The reply tells whether the letter was there.
    pub fn revive(&self, letter: &DeadLetter, at: SystemTime) -> Reply<bool> {
        let (from, to) = (letter.record.position, Arc::new(letter.revived(at)));
        self.ask(|state, promise| {
            let op = Op::Revive { from, to: to.clone() };
            state.pending.outcome(op, Then::Revive(to, promise));
            state.pending.hurry(None);
        })
    }

    /// Throws a dead letter away. The reply tells whether it was there.
    pub fn forget(&self, letter: &DeadLetter) -> Reply<bool> {
        let op = Op::Forget(letter.record.position);
        self.ask(|state, promise| state.pending.outcome(op, Then::Forget(promise)))
    }

    /// Leaves with the writer what keeps a promise, by `leave`, unless the service refuses.
    fn ask<T>(&self, leave: impl FnOnce(&mut State, Promise<T>)) -> Reply<T> {
        let (promise, reply) = promise(&self.core);
        let mut state = self.core.state();
        match state.refuse(promise) {
            Ok(promise) => {
                leave(&mut state, promise);
                drop(state);
                self.core.writer_bell.notify_one();
            }
            Err(refused) => {
                drop(state);
                refused.tell();
            }
        }
        reply
    }

    // --- the service ---

    /// What the service has done so far.
    pub fn stats(&self) -> Stats {
        let state = self.core.state();
        let (near, busy) = (state.window.len(), state.window.busy());
        let first = state.window.first_waiting_ms();
        let lag_ms = first.map_or(0, |first| self.core.now_ms().saturating_sub(first));
        let (stuck, lag) = (self.core.stuck(&state), Duration::from_millis(lag_ms));
        Stats { near, busy, stuck, lag, pauses: state.pauses.len(), ..state.stats }
    }

    /// The failure of the store that has ended this service, if there was one.
    pub fn failure(&self) -> Option<StoreError> {
        self.core.state().failure.clone()
    }

    /// Stops the service: nothing is taken and nothing begins to fire any more, the handlers that
    /// run come to their end, what is pending is written, and the store is closed. What has not
    /// fired stays in the store.
    ///
    /// Stopping again, or from several threads, waits for the same end. A handler that never
    /// returns keeps this from returning; [`stop_within`](Durable::stop_within) leaves it behind.
    ///
    /// # Errors
    /// The store has failed, or the call comes from the handler, or by way of
    /// [`Firing::timers`](crate::Firing::timers): see [`StopError::InHandler`].
    pub fn stop(&self) -> Result<(), StopError> {
        self.stop_at_most(None).map(drop)
    }

    /// As [`stop`](Durable::stop), but waits for handlers no longer than `limit`, and neither does
    /// a `stop` that waits already. Returns how many were still running then. Their timers stay in
    /// the store and come again, and this does not count as a [crash](crate::Builder::crashes).
    ///
    /// # Errors
    /// As `stop`.
    pub fn stop_within(&self, limit: Duration) -> Result<usize, StopError> {
        self.stop_at_most(Some(limit))
    }

    pub(super) fn stop_at_most(&self, limit: Option<Duration>) -> Result<usize, StopError> {
        self.owner.as_ref().map_or(Err(StopError::InHandler), |owner| owner.stop(limit))
    }
}

impl<P> Clone for Durable<P> {
    fn clone(&self) -> Durable<P> {
        Durable { core: self.core.clone(), owner: self.owner.clone(), payload: PhantomData }
    }
}

impl<P> fmt::Debug for Durable<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
