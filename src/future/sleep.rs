//! A future that is ready when its deadline has passed.
//!
//! *Owner*: the task that polls it, one at a time.
//!
//! *Invariants*: while there is a handle there is a signal, whose other half the handle's timer
//! has. The timer's task is a [`Ringer`] and nothing else: it rings when it is run or dropped. The
//! handle says which of the two it was: the deadline has passed only if the timer has fired.
//!
//! *Tested by*: `tests/future_sleep.rs`, `tests/future_ends.rs`, `tests/future_races.rs`,
//! `tests/future_alloc.rs`, `tests/future_executors.rs`.

use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::engine::{Engine, EngineRef, Handle, State, When};
use crate::error::ScheduleReason;
use crate::protocol::signal::Signal;
use crate::sync::Arc;

/// A future that is ready when its deadline has passed: never earlier, and later by less than a
/// tick (plus the time that the system and the executor need to wake the task).
///
/// Created by [`sleep`], [`sleep_until`] and [`Engine::sleep`]. The first poll schedules its timer,
/// so a sleep that is never polled costs nothing. If the deadline has passed by then, the sleep is
/// ready without a timer. That first poll makes the only allocation; later polls and resets make
/// none (with one exception, see [`reset`](Sleep::reset)).
///
/// A different task may poll it each time; it wakes the task that polled last. Dropping it cancels
/// its timer. Once ready it stays ready until it is reset.
///
/// It is `Unpin`: `&mut sleep` is a future, too, so that a `select!` in a loop needs no pinning.
/// It is cancel safe.
///
/// A sleep does not keep its engine alive.
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
/// Awaiting it panics if the engine has stopped or is full: it cannot be ready, since the deadline
/// has not passed, and must not wait for ever. [`wait`](Sleep::wait) and
/// [`poll_elapsed`](Sleep::poll_elapsed) return an error instead.
#[must_use = "a sleep does nothing unless it is awaited or polled"]
pub struct Sleep {
    engine: EngineRef,
    has_elapsed: bool,
    /// It was reset and has not been polled since.
    is_moved: bool,
    /// `None`: never.
    deadline: Option<Instant>,
    /// Present from when a timer is scheduled until a poll has seen its end.
    handle: Option<Handle>,
    /// Present from the first poll on, and reused for the next timer.
    signal: Option<Arc<Signal>>,
}

/// Why an engine cannot tell when a deadline has passed: it did not take the timer, or it stopped
/// meanwhile. If the engine is full, polling again retries.
///
/// Awaiting a [`Sleep`] or a tick panics with it.
/// [`Sleep::poll_elapsed`](Sleep::poll_elapsed), [`Sleep::wait`](Sleep::wait) and
/// [`Interval::try_tick`](super::Interval::try_tick) return it, and a
/// [`Timeout`](super::Timeout) returns it as the [cause](super::Elapsed::cause) of its
/// [`Elapsed`](super::Elapsed).
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::future::SleepError;
///
/// let engine = Engine::new()?;
/// let mut sleep = engine.sleep(Duration::from_secs(5));
/// engine.stop()?;
/// assert_eq!(pollster::block_on(sleep.wait()), Err(SleepError::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type SleepError = ScheduleReason;

/// The timer's half of a signal. Rings when it is dropped.
struct Ringer {
    signal: Option<Arc<Signal>>,
}

/// Waits for `delay`, counted from this call, on the [global engine](Engine::global).
///
/// If the delay is zero, the sleep is ready at the first poll. If it is too long to represent, the
/// sleep is never ready.
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
pub fn sleep(delay: Duration) -> Sleep {
    Engine::global().sleep(delay)
}

/// Waits until `deadline` on the [global engine](Engine::global). If the deadline has passed, the
/// sleep is ready at the first poll.
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
pub fn sleep_until(deadline: Instant) -> Sleep {
    Engine::global().sleep_until(deadline)
}

// === impl Engine: sleeps ===

impl Engine {
    /// As [`sleep`](crate::sleep), on this engine.
    pub fn sleep(&self, delay: Duration) -> Sleep {
        let engine = EngineRef::new(self);
        Sleep::until(engine, engine.time_of(When::after(delay)))
    }

    /// As [`sleep_until`](crate::sleep_until), on this engine. `deadline` is by the engine's clock.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(EngineRef::new(self), Some(deadline))
    }
}

// === impl Sleep ===

impl Sleep {
    pub(super) fn until(engine: EngineRef, deadline: Option<Instant>) -> Sleep {
        let (has_elapsed, is_moved) = (false, false);
        Sleep { engine, has_elapsed, is_moved, deadline, handle: None, signal: None }
    }

    /// Returns when it will be ready, by the engine's clock, or `None` for never.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns `true` if a poll has returned ready, or would because the timer has fired. Returns
    /// `false` if the sleep has not been polled since it was created.
    pub fn is_elapsed(&self) -> bool {
        self.has_elapsed
            || self.handle.as_ref().is_some_and(|handle| handle.state() == State::Fired)
    }

    /// Moves the deadline to `when`, a [`Duration`] from now or an [`Instant`]. From then on the
    /// sleep is ready only when the new deadline has passed, even if it had elapsed before. If
    /// `when` has a slack (see [`When`]), the deadline is the time within it that costs the engine
    /// least.
    ///
    /// A reset to a later time is one compare-and-swap, as with [`Handle::reset`], and takes no
    /// lock; the task that polled last will be woken. If the new deadline has passed, the sleep is
    /// ready at the next poll. If the timer has fired, the next poll schedules a new one. That poll
    /// allocates again only if the reaper is still busy with the last firing.
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
        self.move_to(self.engine.time_of(when.into()));
    }

    /// As polling the future, but returns an error instead of panicking.
    ///
    /// # Errors
    /// The engine is full or has stopped. If it is full, the next poll tries again, but the task is
    /// not woken when there is room.
    pub fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        if self.has_elapsed {
            return Poll::Ready(Ok(()));
        }
        if mem::take(&mut self.is_moved)
            && self.handle.is_some()
            && self.engine.compute(self.deadline).is_none()
        {
            // The new deadline has passed: as with a new sleep, it needs no timer.
            self.cancel();
        }
        let Some(signal) = self.signal.as_ref().filter(|_| self.handle.is_some()) else {
            return self.schedule(cx.waker());
        };
        if !signal.register(cx.waker()) {
            let handle = self.handle.take();
            self.has_elapsed = handle.is_some_and(|handle| handle.state() == State::Fired);
            return Poll::Ready(if self.has_elapsed { Ok(()) } else { Err(SleepError::Stopped) });
        }
        if self.engine.is_inherited() {
            return Poll::Ready(Err(SleepError::Stopped));
        }
        Poll::Pending
    }

    /// As awaiting the sleep, but returns an error instead of panicking. Cancel safe.
    ///
    /// # Errors
    /// The engine is full or has stopped.
    pub async fn wait(&mut self) -> Result<(), SleepError> {
        poll_fn(|cx| self.poll_elapsed(cx)).await
    }

    pub(super) fn engine(&self) -> EngineRef {
        self.engine
    }

    pub(super) fn move_to(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
        self.has_elapsed = false;
        self.is_moved = true;
        let Some(handle) = &mut self.handle else { return };
        let moved = handle.reset(deadline.map_or(When::after(Duration::MAX), When::at));
        if moved.is_err() {
            // It has fired, or its engine has stopped: the next poll finds out which.
            self.handle = None;
        }
    }

    /// Cancels the timer, if there is one, without waking the task.
    pub(super) fn cancel(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        if let Some(ringer) = handle.take() {
            self.hush(ringer);
        }
    }

    /// Drops a ringer that came back, without waking the task.
    fn hush(&mut self, ringer: Task) {
        if let Some(signal) = &self.signal {
            // SAFETY: the sleep is borrowed exclusively, and its ringer is here.
            unsafe { signal.hush() };
        }
        drop(ringer);
    }

    /// A poll that finds no timer: schedules one.
    #[inline]
    fn schedule(&mut self, waker: &Waker) -> Poll<Result<(), SleepError>> {
        let Some(computed) = self.engine.compute(self.deadline) else {
            self.has_elapsed = true;
            return Poll::Ready(Ok(()));
        };
        let ringer = Ringer { signal: Some(self.arm(waker).clone()) };
        match self.engine.schedule(computed, Task::new(|| drop(ringer))) {
            Ok(handle) => {
                self.handle = Some(handle);
                Poll::Pending
            }
            Err(refused) => {
                let error = refused.reason();
                self.hush(refused.into_payload());
                Poll::Ready(Err(error))
            }
        }
    }

    /// Returns an armed signal. Reuses the last one if its timer has released it, so that the old
    /// timer cannot end the new one; otherwise creates a new one.
    fn arm(&mut self, waker: &Waker) -> &Arc<Signal> {
        // SAFETY: the sleep is borrowed exclusively.
        let is_armed = |signal: &Arc<Signal>| unsafe { signal.arm(waker) };
        if !self.signal.as_ref().is_some_and(is_armed) {
            let signal = Arc::new(Signal::new());
            is_armed(&signal);
            self.signal = Some(signal);
        }
        self.signal.as_ref().expect("it was put there")
    }
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

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

debug! { impl[] Sleep[] {
    deadline = |this| this.deadline,
    is_elapsed = |this| this.is_elapsed(),
} }

// === impl Ringer ===

impl Drop for Ringer {
    fn drop(&mut self) {
        let Some(signal) = self.signal.take() else { return };
        let waker = signal.ring();
        // Before the wake: if the sleep ends on the task's thread, the memory is freed there.
        drop(signal);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

// === impl SleepError ===

/// The kind is `Other`.
impl From<SleepError> for io::Error {
    fn from(error: SleepError) -> io::Error {
        io::Error::other(error)
    }
}
