//! The timer of a task that waits: for a sleep, or for the items of a delay queue.
//!
//! *Owner*: the task that polls, one at a time; the ringer's is the entry of the timer, and after
//! that, who ends the timer.
//!
//! The timer's payload is a [`Ringer`], which holds the waker of the task that polled last.
//! Nothing else is shared. A poll by the same task reads the timer's state. A poll by another task
//! exchanges the ringer, in the timer's entry: it vacates the entry and takes the seat again.
//!
//! ```text
//!   poll by another task      vacate: CAS    take the seat: CAS
//!                    pending ────────────► vacant ────────────► pending, with the new ringer
//!                       │                    │
//!     fire, stop: CAS   ▼                    ▼  the bucket opens: unlinked
//!                 the old ringer rings     filed again, with the new ringer
//! ```
//!
//! A ringer runs where it is due, on the thread that serves its shard, and never passes through the
//! engine's handler (`dispatch/own.rs`). So each is run, dropped or taken back once.
//! A poll that loses the entry to a firing finds that the timer has fired, and needs no waker.
//!
//! *Invariants*
//! - The payload of the handle's timer is a ringer, which rings when it is run or dropped. The
//!   handle says which of the two it was.
//! - While the timer is pending, `waker` is the identity of the waker in its ringer. That waker
//!   still exists then, so no other waker has the same identity. It says nothing after the end.
//!
//! *Orderings*: WAKER.
//!
//! *Tested by*: `loom-tests/tests/waker.rs`, `tests/suite/future/sleep.rs`,
//! `tests/races/future.rs`, `tests/suite/future/panics.rs`.

use std::ptr;
use std::task::{Poll, Waker};

use crate::dispatch::{Kind, Runs, Task};
use crate::engine::{Computed, EngineRef, Handle, HandleTicks, State};

use super::SleepError;

/// The timer of the task that polled last, if it has one.
pub(super) struct SleepTimer {
    /// Its payload is a ringer.
    handle: Option<Handle>,
    /// Of the waker in the ringer of a pending timer.
    waker: WakerId,
}

/// The payload of such a timer. Rings when it is run or dropped: it wakes the task that waits.
struct Ringer {
    /// `Some` until it rings.
    waker: Option<Waker>,
}

/// The identity of a waker: wakers with the same identity, which exist at the same time, wake the
/// same task.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WakerId {
    data: usize,
    vtable: usize,
}

// === impl SleepTimer ===

impl SleepTimer {
    pub(super) const NONE: SleepTimer =
        SleepTimer { handle: None, waker: WakerId { data: 0, vtable: 0 } };

    /// The handle, to move the timer. `None`: there is no timer.
    #[inline]
    pub(super) fn handle_mut(&mut self) -> Option<&mut Handle> {
        self.handle.as_mut()
    }

    /// Its state. `None`: there is no timer.
    #[inline]
    pub(super) fn state(&self) -> Option<State> {
        self.handle.as_ref().map(Handle::state)
    }

    /// As `state`, for a poll: one that finds that the timer has fired frees the entry, which was
    /// last written by the thread that fired it.
    #[inline]
    pub(super) fn state_at_poll(&self) -> Option<State> {
        self.handle.as_ref().inspect(|handle| handle.prefetch()).map(Handle::state)
    }

    /// A poll that finds no timer: schedules one.
    ///
    /// # Errors
    /// The engine is full or has stopped, or the thread must not wait for it.
    #[inline]
    pub(super) fn schedule(
        &mut self,
        engine: EngineRef,
        computed: Computed,
        waker: &Waker,
    ) -> Poll<Result<(), SleepError>> {
        if engine.must_not_wait() {
            return Poll::Ready(Err(SleepError::Circular));
        }
        #[cfg(all(feature = "tokio", debug_assertions))]
        if engine.is_beside_paused_time() {
            return Poll::Ready(Err(SleepError::RuntimePaused));
        }
        let (ringer, id) = Ringer::task(waker);
        match engine.schedule_sleep(computed, ringer) {
            Ok(handle) => {
                (self.handle, self.waker) = (Some(handle), id);
                Poll::Pending
            }
            Err(refused) => {
                let error = match refused.reason() {
                    SleepError::Stopped => engine.why_stopped(),
                    other => other,
                };
                // SAFETY: it is the task that was just made.
                unsafe { hush(refused.into_payload()) };
                Poll::Ready(Err(error))
            }
        }
    }

    /// A poll that finds the timer pending: the task that polls waits from now on. Returns the
    /// timer's state after that.
    ///
    /// # Errors
    /// The engine is that of the parent process, or the thread must not wait for it.
    #[inline]
    pub(super) fn wait_on(
        &mut self,
        engine: EngineRef,
        waker: &Waker,
    ) -> Result<State, SleepError> {
        if engine.is_inherited() {
            return Err(SleepError::Stopped);
        }
        if engine.must_not_wait() {
            return Err(SleepError::Circular);
        }
        // The timer was pending after this waker came to be here, so the one in its ringer still
        // exists, and no other waker has the same identity.
        if self.waker == WakerId::of(waker) {
            return Ok(State::Pending);
        }
        Ok(self.exchange(engine, waker))
    }

    /// Lets the timer ring for another task.
    fn exchange(&mut self, engine: EngineRef, waker: &Waker) -> State {
        let (ringer, id) = Ringer::task(waker);
        let handle = self.handle.as_mut().expect("its state was asked for");
        let spare = engine.exchange(handle, ringer);
        let state = handle.state();
        self.waker = id;
        // Wakers are dropped when all else is done.
        // SAFETY: it is a task of the timer, or was meant to be.
        unsafe { hush(spare) };
        state
    }

    /// Schedules the timer anew, for the same task, if it has not ended. If the engine refuses
    /// that, the task is woken.
    pub(super) fn reschedule(&mut self, engine: EngineRef, computed: Computed) {
        if let Some(ringer) = self.take_ringer() {
            self.handle = engine.schedule_sleep(computed, ringer).ok();
        }
    }

    /// Cancels the timer, if there is one, and wakes the task. A timer that has ended has woken it.
    pub(super) fn ring(&mut self) {
        drop(self.take_ringer());
    }

    /// Cancels the timer, if there is one, without waking the task.
    pub(super) fn cancel(&mut self) {
        if let Some(ringer) = self.take_ringer() {
            // SAFETY: it is the task of the timer.
            unsafe { hush(ringer) };
        }
    }

    /// Forgets a timer that has fired. Its entry becomes free memory, without a look for a ringer.
    #[inline]
    pub(super) fn forget_fired(&mut self) {
        debug_assert_ne!(self.state(), Some(State::Pending), "a pending timer has a ringer");
        self.handle = None;
    }

    /// Takes the ringer out of a timer that has not ended. There is no timer from then on.
    #[inline]
    fn take_ringer(&mut self) -> Option<Task> {
        self.handle.take().and_then(Handle::take_from_sleep)
    }
}

impl Drop for SleepTimer {
    fn drop(&mut self) {
        self.cancel();
    }
}

// === impl Ringer ===

impl Ringer {
    /// A task that rings for the task of this waker, and the identity of the waker that it holds: a
    /// clone, which may be another waker than its original.
    ///
    /// # Panics
    /// If the waker's `clone` panics.
    #[inline]
    fn task(waker: &Waker) -> (Task, WakerId) {
        let waker = waker.clone();
        let id = WakerId::of(&waker);
        (Task::of(Ringer { waker: Some(waker) }), id)
    }
}

impl Runs for Ringer {
    const KIND: Kind = Kind::Wake;

    fn run(self) {
        drop(self);
    }
}

impl Drop for Ringer {
    #[inline]
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Drops a ringer that came back, without waking the task.
///
/// # Panics
/// If the waker's `drop` panics.
///
/// # Safety
/// The task was made by [`Ringer::task`].
#[inline]
unsafe fn hush(ringer: Task) {
    // SAFETY: passed on to the caller.
    let mut ringer: Ringer = unsafe { ringer.into_value() };
    drop(ringer.waker.take());
}

// === impl WakerId ===

impl WakerId {
    #[inline]
    fn of(waker: &Waker) -> WakerId {
        WakerId { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}
