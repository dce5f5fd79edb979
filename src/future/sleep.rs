//! A future that is ready when its deadline has passed.
//!
//! *Owner*: the task that polls it, one at a time. What wakes that task is in `ringer`.
//!
//! *Invariant*: the deadline has passed only if the timer has fired, or the engine's clock says so.
//!
//! *Tested by*: `tests/suite/future/sleep.rs`, `tests/suite/future/ends.rs`,
//! `tests/races/future.rs`, `tests/memory/sleeps.rs`, `tests/alone/executors/main.rs`.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::future::FusedFuture;

use crate::engine::{Deadline, Engine, EngineRef, State, When};

use super::ringer::SleepTimer;
use super::{SleepError, coop};

/// A future that is ready when its deadline has passed: never earlier, and later by less than a
/// tick (plus the time that the system and the executor need to wake the task).
///
/// Created by [`sleep`], [`sleep_until`] and [`Engine::sleep`]. The first poll schedules its timer,
/// so a sleep that is never polled costs nothing. If the deadline has passed by then, the sleep is
/// ready without a timer. It allocates nothing besides the engine's memory for the timer, which is
/// reused.
///
/// A different task may poll it each time; it wakes the task that polled last. A poll by another
/// task than the last one costs two compare-and-swaps more. Dropping it cancels its timer. Once
/// ready it stays ready until it is reset.
///
/// It is `Unpin`: `&mut sleep` is a future, too, so that a `select!` in a loop needs no pinning.
/// It is cancel safe.
///
/// A sleep does not keep its engine alive. By a [clock that counts suspended
/// time](crate::Clock::boottime), a suspension before the first poll, or between a reset and the
/// poll after it, does not count.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
///
/// // With a manual clock, a test of asynchronous code does not wait.
/// let clock = ManualClock::new();
/// let engine = Engine::builder().manual_clock(&clock).build()?;
/// let mut sleep = engine.sleep(Duration::from_secs(60));
/// let mut is_ready = || futures_util::FutureExt::now_or_never(&mut sleep).is_some();
/// assert!(!is_ready());
/// engine.advance(Duration::from_secs(59))?;
/// assert!(!is_ready());
/// engine.advance(Duration::from_secs(1))?;
/// assert!(is_ready());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Awaiting it panics if the engine has stopped, or if the calling thread runs one of its tasks and
/// [must not wait](SleepError::Circular): it is not known to be over, and must not wait for ever.
/// [`wait`](Sleep::wait) and [`poll_elapsed`](Sleep::poll_elapsed) return an error instead.
#[must_use = "a sleep does nothing unless it is awaited or polled"]
pub struct Sleep {
    engine: EngineRef,
    has_elapsed: bool,
    /// It was reset, to a deadline that may have passed, and has not been polled since.
    is_moved: bool,
    /// See [`coop`].
    is_put_off: bool,
    deadline: Deadline,
    /// Present from when it is scheduled until a poll has seen its end.
    timer: SleepTimer,
}

/// Waits for `delay`, counted from this call, on the [ambient engine](Engine::enter): the
/// [global](Engine::global) one, if none was entered.
///
/// If the delay is zero, the sleep is ready at the first poll, unless [other tasks are to
/// run](crate::future#other-tasks). If it is too long to represent, the sleep is never ready.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let begin = Instant::now();
/// pollster::block_on(tickless::sleep(Duration::from_millis(5)));
/// assert!(begin.elapsed() >= Duration::from_millis(5));
/// ```
///
/// # Panics
/// As [`Engine::global`] does, if this is its first use.
#[track_caller]
pub fn sleep(delay: Duration) -> Sleep {
    Sleep::on(EngineRef::ambient(), When::after(delay))
}

/// Waits until `deadline` on the [ambient engine](Engine::enter), by its clock. If the deadline has
/// passed, the sleep is ready at the first poll.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_millis(5);
/// pollster::block_on(tickless::sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
///
/// # Panics
/// As [`Engine::global`] does, if this is its first use.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(EngineRef::ambient(), Deadline::At(deadline))
}

// === impl Engine: sleeps ===

impl Engine {
    /// As [`sleep`](crate::sleep), on this engine: for a [`Duration`] from this call, until an
    /// [`Instant`] by the engine's clock, or for a [`When`].
    pub fn sleep(&self, when: impl Into<When>) -> Sleep {
        let when = when.into();
        Sleep::on(EngineRef::new(self), when)
    }

    /// As [`sleep_until`](crate::sleep_until), on this engine. `deadline` is by the engine's clock.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(EngineRef::new(self), Deadline::At(deadline))
    }
}

// === impl Sleep ===

impl Sleep {
    #[inline]
    pub(super) fn on(engine: EngineRef, when: When) -> Sleep {
        Sleep::until(engine, engine.deadline_of(when))
    }

    pub(super) fn until(engine: EngineRef, deadline: Deadline) -> Sleep {
        let (has_elapsed, is_moved, is_put_off) = (false, false, false);
        Sleep { engine, has_elapsed, is_moved, is_put_off, deadline, timer: SleepTimer::NONE }
    }

    /// Returns when it will be ready, by the engine's clock, or `None` for never.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.instant()
    }

    /// Returns `true` if a poll has returned ready, or would because the timer has fired. Returns
    /// `false` if the sleep has not been polled since it was created.
    pub fn is_elapsed(&self) -> bool {
        self.has_elapsed || self.timer.state() == Some(State::Fired)
    }

    /// Moves the deadline to `when`, a [`Duration`] from now or an [`Instant`]. From then on the
    /// sleep is ready only when the new deadline has passed, even if it had elapsed before. If
    /// `when` has a slack (see [`When`]), the deadline is the time within it that costs the engine
    /// least.
    ///
    /// A reset to a later time is one compare-and-swap, as with
    /// [`Handle::reset`](crate::Handle::reset), and takes no lock; the task that polled last will
    /// be woken. If the new deadline is an instant that has passed, or a short delay that is over,
    /// the sleep is ready at the next poll. If the timer has fired, the next poll schedules a new
    /// one.
    ///
    /// Sleeps that are reset by a delay each time they end, and that once ended in the same tick,
    /// stay together. Resets to an `Instant` keep them apart.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut idle = tickless::sleep(Duration::from_secs(30));
    /// // On each packet:
    /// idle.reset(Duration::from_secs(30));
    /// assert!(!idle.is_elapsed());
    /// ```
    pub fn reset(&mut self, when: impl Into<When>) {
        let when = when.into();
        self.move_to(self.engine.deadline_of(when));
        self.is_moved = !when.is_far();
    }

    /// As polling the future, but returns an error instead of panicking.
    ///
    /// # Errors
    /// The engine has stopped, or the task is one of the engine's own and [must not
    /// wait](SleepError::Circular). (A task of a tokio runtime that is shutting down, and drops it
    /// next, hears nothing.)
    pub fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        let polled = self.poll_timer(cx);
        match polled {
            Poll::Ready(Err(error)) if goes_with_its_task(error) => Poll::Pending,
            polled => polled,
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        if self.has_elapsed {
            return self.proceed(cx);
        }
        if mem::take(&mut self.is_moved)
            && self.timer.handle_mut().is_some()
            && self.engine.has_passed(self.deadline)
        {
            // The new deadline has passed: as with a new sleep, it needs no timer.
            self.cancel();
        }
        let state = match self.timer.state_at_poll() {
            None => return self.schedule(cx),
            Some(State::Pending) => self.timer.wait_on(self.engine, cx.waker())?,
            Some(state) => state,
        };
        if state == State::Pending { Poll::Pending } else { Poll::Ready(self.end(state)) }
    }

    /// It is ready without a wait, unless others are to run first.
    fn proceed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        coop::poll_proceed(&mut self.is_put_off, cx).map(Ok)
    }

    /// As awaiting the sleep, but returns an error instead of panicking. Cancel safe.
    ///
    /// # Errors
    /// As [`poll_elapsed`](Sleep::poll_elapsed).
    pub async fn wait(&mut self) -> Result<(), SleepError> {
        poll_fn(|cx| self.poll_elapsed(cx)).await
    }

    pub(super) fn engine(&self) -> EngineRef {
        self.engine
    }

    pub(super) fn move_to(&mut self, deadline: Deadline) {
        self.deadline = deadline;
        self.has_elapsed = false;
        self.is_moved = true;
        let Some(handle) = self.timer.handle_mut() else { return };
        if self.engine.move_to(handle, &mut self.deadline).is_err() {
            // It has fired, or its engine has stopped: the next poll finds out which. A stop that
            // came while the timer was being moved does not have it, and has woken nobody.
            self.timer.ring();
        }
    }

    /// Cancels the timer, if there is one, without waking the task.
    pub(crate) fn cancel(&mut self) {
        self.timer.cancel();
    }

    /// A poll that finds no timer: schedules one, unless the deadline has passed.
    #[inline]
    fn schedule(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        match self.engine.compute(self.deadline) {
            Some(computed) => self.timer.schedule(self.engine, computed, cx.waker()),
            None => {
                self.has_elapsed = true;
                self.proceed(cx)
            }
        }
    }

    /// A poll that finds that the timer has ended.
    fn end(&mut self, state: State) -> Result<(), SleepError> {
        if state == State::Fired {
            self.timer.forget_fired();
            self.has_elapsed = true;
            coop::has_waited();
            return Ok(());
        }
        // The stop may have come before the deadline, and this poll after it.
        self.has_elapsed = self.engine.has_passed(self.deadline);
        self.cancel();
        if self.has_elapsed { Ok(()) } else { Err(self.engine.why_stopped()) }
    }
}

/// Whether a runtime that is shutting down is about to drop the task that meets this error: then it
/// hears nothing any more, as with the runtime's own sleep.
#[cold]
pub(super) fn goes_with_its_task(error: SleepError) -> bool {
    #[cfg(feature = "tokio")]
    if matches!(error, SleepError::Stopped | SleepError::RuntimeEnded) {
        return crate::engine::is_ending();
    }
    let _ = error;
    false
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll_elapsed(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => panic!("a sleep cannot wait: {error}"),
        }
    }
}

/// Terminated once a poll was ready, until it is reset.
impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        self.has_elapsed && !self.is_put_off
    }
}

debug! { impl[] Sleep[] {
    deadline = |this| this.deadline(),
    is_elapsed = |this| this.is_elapsed(),
} }
