//! The timer of a queue: it wakes the task that waits for a tick of the engine.
//!
//! It is to ticks what a [`Sleep`](crate::future::Sleep) is to instants, and its timer's task is a
//! ringer, as a sleep's is; `future/sleep.rs` says what that rests on. A sleep would round twice:
//! by a clock that counts suspended time, a tick that became an instant does not become the same
//! tick again.
//!
//! *Owner*: the queue.
//!
//! *Invariants*: as of a sleep: the task of the handle's timer is a ringer, and while the timer is
//! pending, `waker` is the identity of the waker in it, and `tick` is the timer's.
//!
//! *Orderings*: WAKER, through `EngineRef::exchange`.
//!
//! *Tested by*: `tests/delay_queue.rs`, `tests/delay_queue_ends.rs`.

use std::task::{Poll, Waker};

use crate::engine::{EngineRef, Handle, State};
use crate::future::SleepError;
use crate::future::ringer::{Ringer, WakerId, hush};
use crate::time::Tick;

/// A timer that wakes a task.
pub(super) struct Alarm {
    engine: EngineRef,
    /// Present from when a timer is scheduled until a poll has seen its end.
    handle: Option<Handle>,
    tick: Tick,
    waker: WakerId,
}

// === impl Alarm ===

impl Alarm {
    pub(super) fn new(engine: EngineRef) -> Alarm {
        Alarm { engine, handle: None, tick: Tick::NEVER, waker: WakerId::NONE }
    }

    #[inline]
    pub(super) fn engine(&self) -> EngineRef {
        self.engine
    }

    /// Waits for `tick`: the task of `waker` is woken then. Ready if the engine's clock may have
    /// reached it.
    pub(super) fn poll(&mut self, tick: Tick, waker: &Waker) -> Poll<Result<(), SleepError>> {
        if let Some(handle) = self.handle.as_mut().filter(|_| tick != self.tick) {
            debug_assert!(tick > self.tick, "an earlier item has moved the timer");
            // If it has fired, what was due then is gone: a look at the clock finds that.
            if self.engine.postpone(handle, tick) {
                self.tick = tick;
            }
        }
        match self.handle.as_ref().map(Handle::state) {
            None => self.schedule(tick, waker),
            Some(State::Pending) => self.wait_on(waker),
            Some(state) => {
                self.cancel();
                let is_fired = state == State::Fired;
                Poll::Ready(if is_fired { Ok(()) } else { Err(SleepError::Stopped) })
            }
        }
    }

    /// If a task waits, it is woken at `tick` from now on, which is earlier than before; or at
    /// once, if `tick` has come or the engine does not take the timer.
    pub(super) fn advance_to(&mut self, tick: Tick) {
        let Some(handle) = &mut self.handle else { return };
        let Some(computed) = self.engine.compute_tick(tick) else { return self.ring() };
        self.tick = tick;
        if self.engine.postpone(handle, tick) {
            return;
        }
        // It has fired, or its bucket opens later than that.
        let Some(ringer) = self.handle.take().and_then(Handle::take_from_sleep) else { return };
        match self.engine.schedule_sleep(computed, ringer) {
            Ok(handle) => self.handle = Some(handle),
            Err(refused) => drop(refused),
        }
    }

    /// Wakes the task that waits, if there is one.
    pub(super) fn ring(&mut self) {
        // A timer that has ended has woken it.
        drop(self.handle.take().and_then(Handle::take_from_sleep));
    }

    /// Cancels the timer, if there is one, without waking the task.
    pub(super) fn cancel(&mut self) {
        if let Some(ringer) = self.handle.take().and_then(Handle::take_from_sleep) {
            // SAFETY: it is the task of the alarm's timer.
            unsafe { hush(ringer) };
        }
    }

    /// A poll that finds the timer pending: the task that polls waits from now on.
    fn wait_on(&mut self, waker: &Waker) -> Poll<Result<(), SleepError>> {
        if self.engine.is_inherited() {
            return Poll::Ready(Err(SleepError::Stopped));
        }
        if self.waker != WakerId::of(waker) {
            let (ringer, id) = Ringer::task(waker);
            let handle = self.handle.as_mut().expect("its state was asked for");
            let spare = self.engine.exchange(handle, ringer);
            let state = handle.state();
            self.waker = id;
            // SAFETY: it is a task of the alarm's timer, or was meant to be.
            unsafe { hush(spare) };
            if state != State::Pending {
                return self.poll(self.tick, waker);
            }
        }
        Poll::Pending
    }

    /// A poll that finds no timer: schedules one.
    fn schedule(&mut self, tick: Tick, waker: &Waker) -> Poll<Result<(), SleepError>> {
        let Some(computed) = self.engine.compute_tick(tick) else { return Poll::Ready(Ok(())) };
        let (ringer, id) = Ringer::task(waker);
        match self.engine.schedule_sleep(computed, ringer) {
            Ok(handle) => {
                (self.handle, self.tick, self.waker) = (Some(handle), tick, id);
                Poll::Pending
            }
            Err(refused) => {
                let error = refused.reason();
                // SAFETY: it is the task that was just made.
                unsafe { hush(refused.into_payload()) };
                Poll::Ready(Err(error))
            }
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.cancel();
    }
}
