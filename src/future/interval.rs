//! Ticks, one after another.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::Stream;

use crate::engine::{Engine, EngineRef};

use super::{MissedTickBehavior, Sleep, SleepError};

/// How late, beyond the engine's tick, a tick may be asked for before it counts as missed: about
/// what a busy executor takes to poll a task that was woken.
const GRACE: Duration = Duration::from_millis(5);

/// Ticks at a fixed period: from [`interval`], [`interval_at`] and
/// [`Engine::interval`].
///
/// Ticks are due at the start and at multiples of the period after it, so that they do not drift
/// whatever is done between them. A tick that is asked for more than 5 ms and a tick of the
/// engine too late counts as missed: [`MissedTickBehavior`] says what happens then.
///
/// All ticks share one timer and one allocation, made by the first that has to wait. As a
/// [`Stream`], an interval yields its ticks until its engine has stopped, where it ends.
///
/// ```
/// use std::time::Duration;
///
/// pollster::block_on(async {
///     let mut interval = tickless::interval(Duration::from_millis(2));
///     let first = interval.tick().await;
///     let second = interval.tick().await;
///     assert_eq!(second - first, Duration::from_millis(2));
/// });
/// ```
pub struct Interval {
    sleep: Sleep,
    period: Duration,
    grace: Duration,
    missed: MissedTickBehavior,
}

/// Ticks every `period`, the first time at once, on the process's own engine.
///
/// ```
/// use std::time::Duration;
///
/// let mut heartbeat = tickless::interval(Duration::from_millis(3));
/// pollster::block_on(async {
///     for _ in 0..3 {
///         heartbeat.tick().await;
///     }
/// });
/// ```
///
/// # Panics
/// The period is zero. As [`Engine::global`], if this is its first use.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::from_now(EngineRef::new(Engine::global()), period)
}

/// Ticks every `period` from `start` on, on the process's own engine.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now() + Duration::from_millis(5);
/// let mut interval = tickless::interval_at(start, Duration::from_secs(60));
/// assert_eq!(pollster::block_on(interval.tick()), start);
/// ```
///
/// # Panics
/// The period is zero. As [`Engine::global`], if this is its first use.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(EngineRef::new(Engine::global()), Some(start), period)
}

// === impl Interval ===

impl Interval {
    #[track_caller]
    pub(super) fn from_now(engine: EngineRef, period: Duration) -> Interval {
        Interval::new(engine, engine.now(), period)
    }

    #[track_caller]
    pub(super) fn new(engine: EngineRef, start: Option<Instant>, period: Duration) -> Interval {
        assert!(!period.is_zero(), "an interval needs a period");
        let grace = GRACE.saturating_add(engine.tick().unwrap_or_default());
        let missed = MissedTickBehavior::default();
        Interval { sleep: Sleep::until(engine, start), period, grace, missed }
    }

    /// Waits for the next tick and answers when it was due, which may be a while ago if it was
    /// missed.
    ///
    /// Cancel safe: a tick that nobody was given is still to come.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let begin = Instant::now();
    /// let mut interval = tickless::interval(Duration::from_secs(10));
    /// assert!(pollster::block_on(interval.tick()) >= begin);
    /// ```
    ///
    /// # Panics
    /// The engine has stopped or is full; [`try_tick`](Interval::try_tick) answers that instead.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// As polling what [`tick`](Interval::tick) answers. The task that polled last is woken.
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::time::Duration;
    ///
    /// let mut interval = tickless::interval(Duration::from_secs(10));
    /// let first = pollster::block_on(poll_fn(|cx| interval.poll_tick(cx)));
    /// assert!(first.elapsed() < Duration::from_secs(10));
    /// ```
    ///
    /// # Panics
    /// As [`tick`](Interval::tick).
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        match ready!(self.poll_try_tick(cx)) {
            Ok(due) => Poll::Ready(due),
            Err(error) => panic!("an interval cannot tick: {error}"),
        }
    }

    /// As [`tick`](Interval::tick), with an answer instead of a panic.
    ///
    /// # Errors
    /// The engine is full or has stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::future::SleepError;
    ///
    /// let engine = Engine::new()?;
    /// let mut interval = engine.interval(Duration::from_secs(10));
    /// assert!(pollster::block_on(interval.try_tick()).is_ok());
    /// engine.stop()?;
    /// assert_eq!(pollster::block_on(interval.try_tick()), Err(SleepError::Stopped));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn try_tick(&mut self) -> Result<Instant, SleepError> {
        poll_fn(|cx| self.poll_try_tick(cx)).await
    }

    /// As polling what [`try_tick`](Interval::try_tick) answers.
    ///
    /// # Errors
    /// The engine is full or has stopped.
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::time::Duration;
    ///
    /// let mut interval = tickless::interval(Duration::from_secs(10));
    /// assert!(pollster::block_on(poll_fn(|cx| interval.poll_try_tick(cx))).is_ok());
    /// ```
    pub fn poll_try_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Instant, SleepError>> {
        if let Err(error) = ready!(self.sleep.poll_elapsed(cx)) {
            return Poll::Ready(Err(error));
        }
        let due = self.sleep.deadline().expect("what has elapsed had a deadline");
        // An engine that is gone will say so at the next tick.
        let now = self.sleep.engine().now().unwrap_or(due);
        let is_missed = now.saturating_duration_since(due) > self.grace;
        let next = if is_missed {
            self.missed.next(due, now, self.period)
        } else {
            due.checked_add(self.period)
        };
        self.sleep.move_to(next);
        Poll::Ready(Ok(due))
    }

    /// Begins anew: the next tick is one period from now.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// // A keep-alive is due when nothing was sent for a while.
    /// let mut keep_alive = tickless::interval(Duration::from_secs(10));
    /// keep_alive.reset();
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Begins anew: the next tick is due at once, the one after that a period later.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut interval = tickless::interval(Duration::from_secs(10));
    /// pollster::block_on(interval.tick());
    /// interval.reset_immediately();
    /// pollster::block_on(interval.tick());
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Begins anew: the next tick is `delay` from now.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut interval = tickless::interval(Duration::from_secs(10));
    /// interval.reset_after(Duration::from_millis(2));
    /// pollster::block_on(interval.tick());
    /// ```
    pub fn reset_after(&mut self, delay: Duration) {
        self.sleep.reset(delay);
    }

    /// Begins anew: the next tick is due at `deadline`.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let mut interval = tickless::interval(Duration::from_secs(10));
    /// let next = Instant::now() + Duration::from_millis(2);
    /// interval.reset_at(next);
    /// assert_eq!(pollster::block_on(interval.tick()), next);
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset(deadline);
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What it does when a tick was missed. Default [`MissedTickBehavior::Burst`].
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what it does when a tick was missed, from the next tick on.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use tickless::future::MissedTickBehavior;
    ///
    /// let mut interval = tickless::interval(Duration::from_secs(10));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }
}

/// Yields when each tick was due. Ends when the engine has stopped; panics if it is full.
impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        match ready!(self.poll_try_tick(cx)) {
            Ok(due) => Poll::Ready(Some(due)),
            Err(SleepError::Stopped) => Poll::Ready(None),
            Err(error) => panic!("an interval cannot tick: {error}"),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // As long as the engine runs, which nobody knows.
        (0, None)
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("period", &self.period)
            .field("next", &self.sleep.deadline())
            .field("missed_tick_behavior", &self.missed)
            .finish_non_exhaustive()
    }
}
