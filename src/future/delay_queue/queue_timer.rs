//! The timer of a queue: it wakes the task that waits for a tick of the engine.
//!
//! It is to ticks what a [`Sleep`](crate::future::Sleep) is to instants, and has the same timer
//! (`future/ringer.rs`). A sleep would round twice: by a clock that counts suspended time, a tick
//! that became an instant does not become the same tick again.
//!
//! *Owner*: the queue.
//!
//! *Invariant*: while the timer is pending, `tick` is the timer's.
//!
//! *Tested by*: `tests/suite/delay_queue/expiry.rs`, `tests/suite/delay_queue/ends.rs`.

use std::task::{Poll, Waker};

use crate::engine::{EngineRef, State};
use crate::future::SleepError;
use crate::future::ringer::SleepTimer;
use crate::future::sleep::goes_with_its_task;
use crate::time::Tick;

/// A timer that wakes a task.
pub(super) struct QueueTimer {
    engine: EngineRef,
    /// Present from when it is scheduled until a poll has seen its end.
    timer: SleepTimer,
    tick: Tick,
}

// === impl QueueTimer ===

impl QueueTimer {
    pub(super) fn new(engine: EngineRef) -> QueueTimer {
        QueueTimer { engine, timer: SleepTimer::NONE, tick: Tick::NEVER }
    }

    #[inline]
    pub(super) fn engine(&self) -> EngineRef {
        self.engine
    }

    /// Waits for `tick`: the task of `waker` is woken then. Ready if the engine's clock may have
    /// reached it.
    pub(super) fn poll(&mut self, tick: Tick, waker: &Waker) -> Poll<Result<(), SleepError>> {
        if let Some(handle) = self.timer.handle_mut().filter(|_| tick != self.tick) {
            debug_assert!(tick > self.tick, "an earlier item has moved the timer");
            if self.engine.reset_in_place(handle, tick) {
                self.tick = tick;
            } else {
                // It has fired, and what was due then is gone; or its bucket is due.
                self.cancel();
            }
        }
        let state = match self.timer.state() {
            None => return self.schedule(tick, waker),
            Some(State::Pending) => self.timer.wait_on(self.engine, waker)?,
            Some(state) => state,
        };
        if state == State::Pending {
            return Poll::Pending;
        }
        self.cancel();
        if state == State::Fired {
            return Poll::Ready(Ok(()));
        }
        let reason = self.engine.why_stopped();
        if goes_with_its_task(reason) { Poll::Pending } else { Poll::Ready(Err(reason)) }
    }

    /// If a task waits, it is woken at `tick` from now on, which is earlier than before; or at
    /// once, if `tick` has come or the engine does not take the timer.
    pub(super) fn advance_to(&mut self, tick: Tick) {
        let Some(handle) = self.timer.handle_mut() else { return };
        let Some(computed) = self.engine.compute_tick(tick) else { return self.ring() };
        self.tick = tick;
        if !self.engine.reset_in_place(handle, tick) {
            // It has fired, or its entry serves no such time.
            self.timer.reschedule(self.engine, computed);
        }
    }

    /// Wakes the task that waits, if there is one.
    pub(super) fn ring(&mut self) {
        self.timer.ring();
    }

    /// Cancels the timer, if there is one, without waking the task.
    pub(super) fn cancel(&mut self) {
        self.timer.cancel();
    }

    /// A poll that finds no timer: schedules one, unless `tick` has come.
    fn schedule(&mut self, tick: Tick, waker: &Waker) -> Poll<Result<(), SleepError>> {
        let Some(computed) = self.engine.compute_tick(tick) else { return Poll::Ready(Ok(())) };
        self.tick = tick;
        self.timer.schedule(self.engine, computed, waker)
    }
}
