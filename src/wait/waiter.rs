//! The caller's end of a value that goes with a timer: it revokes the value, or waits.
//!
//! *Owner*: the caller; one waiter per value.
//!
//! *Tested by*: `tests/suite/wait.rs`, `tests/races/wait/races.rs`.

use std::time::{Duration, Instant};

use crate::dispatch::{Process, Task};
use crate::protocol::latch::Latch;
use crate::protocol::revocable::Phase;

use super::waiting::Shared;
use super::{Cancelled, Ended, Ends, Sleeper, WaitError, deadline_in, wait_for_end};

/// The caller's end of a [`Guarded`](super::Guarded) value: it cancels, and waits.
///
/// If it is dropped, the value is used as if there had been no waiter.
///
/// [`pair`](super::pair) and [`task`](super::task) make one, and have examples.
pub struct Waiter<V: Send + 'static = Task> {
    shared: Shared<V>,
    /// The process in which the value's use ends.
    process: Process,
}

/// How far a task has come.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickless::wait::Stage;
/// use tickless::{Engine, ManualClock};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let timer = engine.schedule_waitable(second, || println!("due"))?;
/// assert_eq!(timer.stage(), Stage::Pending);
/// engine.advance(second)?;
/// assert_eq!(timer.stage(), Stage::Finished);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// It has not begun. From a [`Waitable`](crate::Waitable) this means that its timer waits for
    /// the deadline.
    Pending,
    /// The timer has fired, or its engine's stop has returned the task, but the task has not begun.
    /// Only a [`Waitable`](crate::Waitable) knows this.
    Due,
    /// It is running, or is being dropped.
    Running,
    /// It has run, and has returned or panicked. What it captured is dropped, except [a value that
    /// it panicked with](super#panics).
    Finished,
    /// It was cancelled, or dropped before it ran. What it captured is dropped.
    Cancelled,
}

// === impl Waiter ===

impl<V: Send + 'static> Waiter<V> {
    pub(super) fn new(shared: Shared<V>) -> Waiter<V> {
        Waiter { shared, process: Process::current() }
    }

    /// Cancels the task, and drops it on this thread. Returns `true` if it was cancelled by this
    /// call. `false`: it has begun, has ended, or was cancelled before.
    ///
    /// The timer that carries the task stays where it is, and does nothing when it fires.
    /// ([`Waitable::cancel`](crate::Waitable::cancel) takes it away.)
    ///
    /// One compare-and-swap; never waits. O(1).
    ///
    /// # Panics
    /// Dropping the task panics. It is cancelled all the same.
    pub fn cancel(&mut self) -> bool {
        self.take().is_some()
    }

    /// As [`cancel`](Waiter::cancel), and returns the value.
    #[must_use = "`cancel` drops the value, and costs the same"]
    pub fn take(&mut self) -> Option<V> {
        self.shared.revoke()
    }

    /// Cancels the task if it has not begun, else waits until it has ended. When this returns `Ok`,
    /// nothing of the task runs any more, and what it captured is dropped. All that the task did
    /// happens before the return. After an error it can be called again.
    ///
    /// The calling thread sleeps meanwhile. Async code uses [`cancelled`](Waiter::cancelled).
    ///
    /// # Errors
    /// The wait would not end: see [`WaitError`].
    ///
    /// # Panics
    /// As [`cancel`](Waiter::cancel).
    pub fn cancel_wait(&mut self) -> Result<Ended, WaitError> {
        self.cancel_wait_until(None)
    }

    /// As [`cancel_wait`](Waiter::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](Waiter::cancel_wait), or the task is still running:
    /// [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`cancel`](Waiter::cancel).
    pub fn cancel_wait_within(&mut self, limit: Duration) -> Result<Ended, WaitError> {
        self.cancel_wait_until(deadline_in(limit))
    }

    /// As [`cancel_wait`](Waiter::cancel_wait), but waits no longer than until `deadline`.
    pub(crate) fn cancel_wait_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Ended, WaitError> {
        self.cancel();
        wait_for_end(self, deadline)
    }

    /// Cancels the task if it has not begun, now. The future waits until it has ended, as
    /// [`cancel_wait`](Waiter::cancel_wait) does.
    ///
    /// If the future is dropped, the task stays cancelled, or goes on running with nobody to wait
    /// for it; this can be called again.
    ///
    /// # Panics
    /// As [`cancel`](Waiter::cancel).
    pub fn cancelled(&mut self) -> Cancelled<'_> {
        self.cancel();
        Cancelled::new(self)
    }

    /// How far the task has come, which may change right after. If it has ended, all that it did
    /// happens before the return.
    pub fn stage(&self) -> Stage {
        match self.shared.phase() {
            Phase::Waits => Stage::Pending,
            Phase::Runs | Phase::Drops => Stage::Running,
            Phase::Ran => Stage::Finished,
            Phase::Dropped | Phase::Revoked => Stage::Cancelled,
        }
    }
}

impl<V: Send + 'static> Ends<Ended> for Waiter<V> {
    fn latch(&self) -> &Latch<Sleeper> {
        self.shared.latch()
    }

    fn process(&self) -> Process {
        self.process
    }

    fn ended(&self) -> Option<Ended> {
        match self.stage() {
            Stage::Finished => Some(Ended::Finished),
            Stage::Cancelled => Some(Ended::Cancelled),
            _ => None,
        }
    }
}

// A panic leaves both ends consistent: the value is moved out before it is used or dropped.
unwind_safe! { impl[V: Send + 'static] Waiter[V] }

debug! { impl[V: Send + 'static] Waiter[V] { stage = |this| this.stage() } }
