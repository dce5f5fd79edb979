//! A timeout whose task can be waited for.
//!
//! The task is carried by another, which lets it run at most once, and not after a cancel: see
//! `tickless::wait`. So timeouts that do not use this are what they were.
//!
//! *Owner*: the caller. The carrier is shared with the timeout.
//!
//! *Tested by*: `tests/waits.rs`.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tickless::wait::{Cancelled, Ended, Guarded, Stage, WaitError, Waiter, pair};

use crate::{HashedWheelTimer, IntoTask, Rejected, Timeout, TimerTask};

/// A timeout whose task can be waited for: see [`tickless::wait`]. It is a [`Timeout`] as well.
///
/// ```
/// use std::time::Duration;
/// use tickless_netty::{HashedWheelTimer, Timeout};
/// use tickless::wait::Ended;
///
/// let timer = HashedWheelTimer::new()?;
/// let late = |_: &Timeout| println!("no answer");
/// let mut timeout = timer.new_waitable_timeout(late, Duration::from_secs(5))?;
/// assert_eq!(timeout.cancel_wait()?, Ended::Cancelled);
/// assert!(timeout.is_cancelled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WaitableTimeout {
    timeout: Timeout,
    waiter: Waiter<()>,
}

/// Carries a task, and lets it run for one timeout.
struct Carrier {
    task: Arc<dyn TimerTask>,
    /// Until the task begins, which happens once.
    guard: Mutex<Option<Guarded<()>>>,
}

// === impl HashedWheelTimer ===

impl HashedWheelTimer {
    /// As [`new_timeout`](HashedWheelTimer::new_timeout), for a task that can be waited for. Costs
    /// two allocations more.
    ///
    /// # Errors
    /// As [`new_timeout`](HashedWheelTimer::new_timeout).
    pub fn new_waitable_timeout(
        &self,
        task: impl IntoTask,
        delay: Duration,
    ) -> Result<WaitableTimeout, Rejected> {
        let (guard, waiter) = pair(());
        let carrier = Carrier { task: task.into_task(), guard: Mutex::new(Some(guard)) };
        Ok(WaitableTimeout { timeout: self.new_timeout(carrier, delay)?, waiter })
    }
}

// === impl WaitableTimeout ===

impl WaitableTimeout {
    /// Cancels the timeout, and its task until that begins: a task that waits to be run, because
    /// its timeout has expired, will not run. Then waits until the task has returned, if it runs.
    ///
    /// When this returns `Ok`, no run is under way, and none begins. The task itself is shared, and
    /// is dropped with the last timeout that has it. `is_expired` stays as it was.
    ///
    /// # Errors
    /// The wait would not end: see [`WaitError`].
    ///
    /// # Panics
    /// [`TimerTask::cancelled`] panics.
    pub fn cancel_wait(&mut self) -> Result<Ended, WaitError> {
        self.timeout.cancel();
        self.waiter.cancel_wait()
    }

    /// As [`cancel_wait`](WaitableTimeout::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](WaitableTimeout::cancel_wait), or the task is still running:
    /// [`WaitError`]`::TimedOut`.
    ///
    /// # Panics
    /// As [`cancel_wait`](WaitableTimeout::cancel_wait).
    pub fn cancel_wait_within(&mut self, limit: Duration) -> Result<Ended, WaitError> {
        self.timeout.cancel();
        self.waiter.cancel_wait_within(limit)
    }

    /// Cancels as [`cancel_wait`](WaitableTimeout::cancel_wait) does, now. The future waits. If it
    /// is dropped, the task may still be running.
    ///
    /// # Panics
    /// As [`cancel_wait`](WaitableTimeout::cancel_wait).
    pub fn cancelled(&mut self) -> Cancelled<'_> {
        self.timeout.cancel();
        self.waiter.cancelled()
    }

    /// How far the task has come.
    pub fn stage(&self) -> Stage {
        match self.waiter.stage() {
            Stage::Pending if self.timeout.is_expired() => Stage::Due,
            Stage::Pending if self.timeout.is_cancelled() => Stage::Cancelled,
            stage => stage,
        }
    }
}

impl Deref for WaitableTimeout {
    type Target = Timeout;

    fn deref(&self) -> &Timeout {
        &self.timeout
    }
}

// === impl Carrier ===

impl TimerTask for Carrier {
    fn run(&self, timeout: &Timeout) {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(guard) = guard {
            guard.run(|()| self.task.run(timeout));
        }
    }

    fn cancelled(&self, timeout: &Timeout) {
        self.task.cancelled(timeout);
    }

    fn carried(&self) -> Option<&Arc<dyn TimerTask>> {
        Some(&self.task)
    }
}
