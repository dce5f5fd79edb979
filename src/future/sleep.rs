//! A future that is ready when its deadline has passed.
//!
//! *Owner*: the task that polls it, one at a time.
//!
//! *Invariants*: while there is a handle there is a signal, which the handle's timer has the other
//! half of. The timer's task is a [`Ringer`] and nothing else: run or dropped, it rings. Which of
//! the two it was says the handle: only a timer that was handed over is one whose deadline has
//! passed.
//!
//! *Tested by*: `tests/future_sleep.rs`, `tests/future_ends.rs`, `tests/future_races.rs`,
//! `tests/future_alloc.rs`, `tests/future_executors.rs`.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::engine::{Engine, EngineRef, Handle, State, When};
use crate::protocol::signal::Signal;
use crate::sync::Arc;

use super::SleepError;

/// A future that is ready when its deadline has passed: never earlier, and later by less than a
/// tick (plus what system and executor need to wake the task).
///
/// From [`sleep`], [`sleep_until`] and [`Engine::sleep`]. Its timer is scheduled by
/// the first poll: one that is never polled costs nothing. That is the one allocation of its life,
/// whatever polls and resets follow (but see [`reset`](Sleep::reset)); a deadline that has passed
/// by then is ready without a timer.
/// It may be polled by another task each time, and wakes the one that polled last. Dropping it
/// cancels its timer. Once ready it stays ready, until it is reset.
///
/// It is `Unpin`: `&mut sleep` is a future, too, so that a `select!` in a loop needs no pinning.
/// Cancel safe: what is dropped half-way is nothing but time.
///
/// A sleep does not keep its engine alive.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
///
/// // Asynchronous code is tested without waiting on an engine whose clock is moved by hand.
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
/// Awaiting it panics if the engine has stopped or is full: it can neither be ready, since the
/// deadline has not passed, nor wait for ever. [`wait`](Sleep::wait) and
/// [`poll_elapsed`](Sleep::poll_elapsed) answer that as an error instead.
#[must_use = "a sleep does nothing unless it is awaited or polled"]
pub struct Sleep {
    engine: EngineRef,
    has_elapsed: bool,
    /// It was reset, and not polled since.
    is_moved: bool,
    /// `None`: never.
    deadline: Option<Instant>,
    /// There while a timer is scheduled, and until a poll has seen its end.
    handle: Option<Handle>,
    /// From the first poll on; kept for the next timer.
    signal: Option<Arc<Signal>>,
}

/// The timer's half of a signal. Rings when it goes.
struct Ringer {
    signal: Option<Arc<Signal>>,
}

/// Waits for `delay`, counted from this call, on the process's own engine.
///
/// A delay of zero is ready at the first poll; one too long to represent never is.
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
/// As [`Engine::global`], if this is its first use.
pub fn sleep(delay: Duration) -> Sleep {
    Sleep::after(EngineRef::new(Engine::global()), delay)
}

/// Waits until `deadline` on the process's own engine. What is past is ready at the first poll.
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
/// As [`Engine::global`], if this is its first use.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until(EngineRef::new(Engine::global()), Some(deadline))
}

// === impl Sleep ===

impl Sleep {
    pub(super) fn after(engine: EngineRef, delay: Duration) -> Sleep {
        Sleep::until(engine, engine.time_of(When::after(delay)))
    }

    pub(super) fn until(engine: EngineRef, deadline: Option<Instant>) -> Sleep {
        let (has_elapsed, is_moved) = (false, false);
        Sleep { engine, has_elapsed, is_moved, deadline, handle: None, signal: None }
    }

    /// When it will be ready, by the engine's clock. `None`: never.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// assert_eq!(tickless::sleep_until(deadline).deadline(), Some(deadline));
    /// assert_eq!(tickless::sleep(Duration::MAX).deadline(), None);
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether it has elapsed: a poll has been ready, or would be because the timer has fired. A
    /// sleep that was never polled since it was made or reset has not.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut sleep = tickless::sleep(Duration::from_millis(2));
    /// assert!(!sleep.is_elapsed());
    /// pollster::block_on(&mut sleep);
    /// assert!(sleep.is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        self.has_elapsed
            || self.handle.as_ref().is_some_and(|handle| handle.state() == State::Fired)
    }

    /// Moves the deadline to `when`, a [`Duration`] from now or an [`Instant`]: the sleep is ready
    /// when that has passed, and at no other time, whether it was elapsed or not. Of a [`When`]
    /// with a slack, the deadline is the time in it that costs the engine least.
    ///
    /// To a later time this is one compare-and-swap, as [`Handle::reset`] is, and takes no lock;
    /// the task that polled last will be woken. A deadline that has passed is ready at the next
    /// poll. A sleep whose timer has fired waits anew from its next poll on, and allocates again
    /// only where the reaper is still busy with the last firing.
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

    /// As polling the future, with an answer instead of a panic.
    ///
    /// # Errors
    /// The engine is full or has stopped. A full one is asked again by the next poll, but wakes
    /// nobody when there is room.
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::time::Duration;
    ///
    /// let mut sleep = tickless::sleep(Duration::from_millis(2));
    /// assert_eq!(pollster::block_on(poll_fn(|cx| sleep.poll_elapsed(cx))), Ok(()));
    /// ```
    pub fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        if self.has_elapsed {
            return Poll::Ready(Ok(()));
        }
        if mem::take(&mut self.is_moved)
            && self.handle.is_some()
            && self.engine.compute(self.deadline).is_none()
        {
            // As with one that is new: what has passed needs no timer.
            self.cancel();
        }
        match &self.signal {
            Some(signal) if self.handle.is_some() => {
                if signal.register(cx.waker()) {
                    if self.engine.is_inherited() {
                        return Poll::Ready(Err(SleepError::Stopped));
                    }
                    return Poll::Pending;
                }
                Poll::Ready(self.conclude())
            }
            _ => self.schedule(cx.waker()),
        }
    }

    /// Waits as awaiting the sleep does, with an answer instead of a panic. Cancel safe.
    ///
    /// # Errors
    /// The engine is full or has stopped.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut sleep = tickless::sleep(Duration::from_millis(2));
    /// assert_eq!(pollster::block_on(sleep.wait()), Ok(()));
    /// ```
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
            // It has fired, or its engine stopped: the next poll finds out which.
            self.handle = None;
        }
    }

    /// Cancels the timer, if there is one. Wakes nobody.
    pub(super) fn cancel(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        if let Some(ringer) = handle.take() {
            self.hush(ringer);
        }
    }

    /// Drops a ringer that came back, so that it rings nowhere.
    fn hush(&mut self, ringer: Task) {
        if let Some(signal) = &self.signal {
            // SAFETY: the sleep is borrowed alone, and what would ring is here.
            unsafe { signal.hush() };
        }
        drop(ringer);
    }

    /// The poll that finds no timer.
    #[inline]
    fn schedule(&mut self, waker: &Waker) -> Poll<Result<(), SleepError>> {
        let Some(computed) = self.engine.compute(self.deadline) else {
            self.has_elapsed = true;
            return Poll::Ready(Ok(()));
        };
        let ringer = Ringer { signal: Some(self.arm(waker).clone()) };
        let refused = match self.engine.schedule(computed, Task::new(|| drop(ringer))) {
            Ok(handle) => {
                self.handle = Some(handle);
                return Poll::Pending;
            }
            Err(refused) => refused,
        };
        let error = if refused.is_full() { SleepError::Full } else { SleepError::Stopped };
        self.hush(refused.into_payload());
        Poll::Ready(Err(error))
    }

    /// An armed signal: the last one if its timer has let go of it, so that nothing of that can
    /// end this one, else a new one.
    fn arm(&mut self, waker: &Waker) -> &Arc<Signal> {
        // SAFETY: the sleep is borrowed alone.
        let is_armed = |signal: &Arc<Signal>| unsafe { signal.arm(waker) };
        if !self.signal.as_ref().is_some_and(is_armed) {
            let signal = Arc::new(Signal::new());
            is_armed(&signal);
            self.signal = Some(signal);
        }
        self.signal.as_ref().expect("it was put there")
    }

    /// The timer has ended.
    fn conclude(&mut self) -> Result<(), SleepError> {
        let handle = self.handle.take();
        self.has_elapsed = handle.is_some_and(|handle| handle.state() == State::Fired);
        if self.has_elapsed { Ok(()) } else { Err(SleepError::Stopped) }
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

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

// === impl Ringer ===

impl Drop for Ringer {
    fn drop(&mut self) {
        let Some(signal) = self.signal.take() else { return };
        let waker = signal.ring();
        // Before the task can run, so that a sleep that ends with it frees the memory there.
        drop(signal);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
