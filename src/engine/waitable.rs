//! A timer whose task can be waited for: the caller's end, and how it is scheduled.
//!
//! The task lies beside the timer (`crate::wait`), which carries one end of it. The word of the
//! task decides whether it runs, and the engine follows: a cancel decides there first.
//!
//! *Owner*: the caller.
//!
//! *Tested by*: `tests/suite/wait.rs`, `tests/races/wait/races.rs`, `tests/races/wait/futures.rs`.

use std::time::{Duration, Instant};

use crate::dispatch::{IntoPayload, Task};
use crate::error::{ResetError, ScheduleError};
use crate::wait::{Cancelled, Ended, Guarded, Stage, WaitError, Waiter, deadline_in, pair};

use super::{Cancel, CancelOnDrop, Engine, EngineRef, Handle, State, When};

/// The caller's end of a timer whose task can be waited for.
///
/// It does what a [`Handle`] does, and more: it cancels until the task begins, which may be long
/// after the timer has fired, and waits for the end of a task that runs. Dropping it *detaches* the
/// timer, as with a handle.
///
/// `V` is what is used when the timer is due, a [`Task`] or a value of the user. `T` is the
/// payload that carries it through the engine.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// let memory = Box::into_raw(Box::new(AtomicU64::new(0)));
/// // SAFETY: the memory is freed after `cancel_wait`, and then the task does not run.
/// let ticks: &'static AtomicU64 = unsafe { &*memory };
/// let mut timer = engine.schedule_waitable(Duration::from_micros(500), move || {
///     ticks.fetch_add(1, Ordering::Relaxed);
/// })?;
/// timer.cancel_wait()?;
/// // SAFETY: it came from a box, and nothing of the task is left.
/// drop(unsafe { Box::from_raw(memory) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dropped waitable detaches its timer; `schedule_detached` costs less"]
pub struct Waitable<V: Send + 'static = Task, T: Send + 'static = Task> {
    /// `None` once it was cancelled.
    handle: Option<Handle<T>>,
    waiter: Waiter<V>,
}

// === impl Engine ===

impl Engine {
    /// As [`schedule`](Engine::schedule), for a timer whose task can be waited for: see
    /// [`wait`](crate::wait).
    ///
    /// Costs one allocation more than `schedule`, and the compare-and-swap by which the task
    /// begins.
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    pub fn schedule_waitable(
        &self,
        when: impl Into<When>,
        task: impl IntoPayload<Task>,
    ) -> Result<Waitable, ScheduleError<Task>> {
        EngineRef::new(self).schedule_waitable(when.into(), task.into_payload())
    }
}

impl<V: Send + 'static> Engine<Guarded<V>> {
    /// As [`schedule`](Engine::schedule), for a value whose use can be waited for: see
    /// [`wait`](crate::wait). The handler uses it by [`Guarded::run`] or [`Guarded::begin`].
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    pub fn schedule_waitable(
        &self,
        when: impl Into<When>,
        value: V,
    ) -> Result<Waitable<V, Guarded<V>>, ScheduleError<V>> {
        EngineRef::new(self).schedule_waitable(when.into(), value)
    }
}

impl<T: Send + 'static> EngineRef<T> {
    /// As [`Engine::schedule_waitable`].
    pub(crate) fn schedule_waitable<V: Send + 'static>(
        self,
        when: When,
        value: V,
    ) -> Result<Waitable<V, T>, ScheduleError<V>>
    where
        T: From<Guarded<V>>,
    {
        let (guarded, mut waiter) = pair(value);
        match self.schedule_when(when, guarded.into()) {
            Ok(handle) => Ok(Waitable { handle: Some(handle), waiter }),
            Err(refused) => {
                let value = waiter.take().expect("nobody else has had it");
                Err(refused.map(|_payload| value))
            }
        }
    }
}

// === impl Waitable ===

impl<V: Send + 'static, T: Send + 'static> Waitable<V, T> {
    /// Cancels the task, and drops it on this thread. Returns `true` if it was cancelled by this
    /// call: it will never run, whether its timer was pending or the task was waiting to be run.
    /// `false`: it has begun, has ended, or was cancelled before.
    ///
    /// Two compare-and-swaps; never waits. O(1).
    ///
    /// # Panics
    /// Dropping the task panics. It is cancelled all the same.
    pub fn cancel(&mut self) -> bool {
        self.take().is_some()
    }

    /// As [`cancel`](Waitable::cancel), and returns the task.
    #[must_use = "`cancel` drops the task, and costs the same"]
    pub fn take(&mut self) -> Option<V> {
        let value = self.waiter.take();
        if let Some(handle) = self.handle.take() {
            // If this is too late, what the timer carries finds the task gone.
            handle.cancel();
        }
        value
    }

    /// Cancels the task if it has not begun, else waits until it has ended. When this returns `Ok`,
    /// nothing of the task runs any more, and what it captured is dropped. All that the task did
    /// happens before the return. After an error it can be called again.
    ///
    /// A task that [`Engine::stop`] has returned counts as one that has not begun: it is cancelled
    /// where it is, and does nothing if it is run.
    ///
    /// The calling thread sleeps meanwhile. Async code uses [`cancelled`](Waitable::cancelled).
    ///
    /// # Errors
    /// The wait would not end: see [`WaitError`].
    ///
    /// # Panics
    /// As [`cancel`](Waitable::cancel).
    pub fn cancel_wait(&mut self) -> Result<Ended, WaitError> {
        self.cancel_wait_until(None)
    }

    /// As [`cancel_wait`](Waitable::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](Waitable::cancel_wait), or the task is still running:
    /// [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`cancel`](Waitable::cancel).
    pub fn cancel_wait_within(&mut self, limit: Duration) -> Result<Ended, WaitError> {
        self.cancel_wait_until(deadline_in(limit))
    }

    /// As [`cancel_wait`](Waitable::cancel_wait), but waits no longer than until `deadline`.
    pub(crate) fn cancel_wait_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Ended, WaitError> {
        self.cancel();
        self.waiter.cancel_wait_until(deadline)
    }

    /// Cancels the task if it has not begun, now. The future waits until it has ended, as
    /// [`cancel_wait`](Waitable::cancel_wait) does.
    ///
    /// If the future is dropped, the task stays cancelled, or goes on running with nobody to wait
    /// for it; this can be called again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, wait::Ended};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let engine = Engine::new()?;
    /// let mut timer = engine.schedule_waitable(Duration::from_secs(5), || println!("due"))?;
    /// assert_eq!(timer.cancelled().await?, Ended::Cancelled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// As [`cancel`](Waitable::cancel).
    pub fn cancelled(&mut self) -> Cancelled<'_> {
        self.cancel();
        self.waiter.cancelled()
    }

    /// Moves the timer, as [`Handle::reset`] does.
    ///
    /// # Errors
    /// As [`Handle::reset`]. A timer that was cancelled is [`ResetError::TooLate`].
    pub fn reset(&mut self, when: impl Into<When>) -> Result<(), ResetError> {
        self.handle.as_mut().map_or(Err(ResetError::TooLate), |handle| handle.reset(when))
    }

    /// How far the timer and its task have come, which may change right after. If the task has
    /// ended, all that it did happens before the return.
    pub fn stage(&self) -> Stage {
        match (self.waiter.stage(), self.handle.as_ref().map(Handle::state)) {
            (Stage::Pending, Some(State::Fired | State::Stopped)) => Stage::Due,
            (stage, _) => stage,
        }
    }

    /// When the timer is due, as [`Handle::deadline`] tells. `None` if it was cancelled.
    pub fn deadline(&self) -> Option<Instant> {
        self.handle.as_ref()?.deadline()
    }

    /// Turns it into a plain handle of its timer. `None` if it was cancelled.
    pub fn into_handle(self) -> Option<Handle<T>> {
        self.handle
    }

    /// Turns it into a guard that cancels the task when it is dropped. The drop does not wait.
    pub fn cancel_on_drop(self) -> CancelOnDrop<Waitable<V, T>> {
        CancelOnDrop::new(self)
    }
}

impl<V: Send + 'static, T: Send + 'static> Cancel for Waitable<V, T> {
    fn cancel(mut self) {
        Waitable::cancel(&mut self);
    }
}

debug! { impl[V: Send + 'static, T: Send + 'static] Waitable[V, T] {
    stage = |this| this.stage(),
} }
