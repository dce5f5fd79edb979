//! Ticks at a fixed period.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::stream::{FusedStream, Stream};

use crate::engine::{Engine, When};
use crate::time::left_of_period;

use super::{Sleep, SleepError, sleep, sleep_until};

/// How late, beyond the engine's tick, a tick may be polled before it counts as missed: about the
/// time that a busy executor takes to poll a woken task.
const GRACE: Duration = Duration::from_millis(5);

/// Ticks at a fixed period. Created by [`interval`], [`interval_at`] and [`Engine::interval`].
///
/// Ticks are due at the start and at multiples of the period after it, so they do not drift,
/// however long the work between them takes. A tick that is polled later than 5 ms plus one tick of
/// the engine counts as missed: [`MissedTickBehavior`] says what happens then.
///
/// All ticks share one timer. As a [`Stream`], an interval yields its ticks, and ends when its
/// engine has stopped. (In a task of the engine that [must not
/// wait](super::SleepError::Circular), it also returns `None`.)
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
    /// The last poll as a stream has returned `None`.
    has_ended: bool,
}

/// What an [`Interval`] does after a missed tick. A tick is missed when it is
/// polled too late, because the task was still busy with the work of the previous tick.
///
/// With a period of 10 ms and a task that takes 25 ms after the first tick, ticks are returned at
/// these times, in milliseconds:
///
/// | tick | 1 | 2 | 3 | 4 | 5 | 6 |
/// |---|---|---|---|---|---|---|
/// | `Burst` | 0 | 25 | 25 | 30 | 40 | 50 |
/// | `Delay` | 0 | 25 | 35 | 45 | 55 | 65 |
/// | `Skip` | 0 | 25 | 30 | 40 | 50 | 60 |
///
/// ```
/// use std::time::Duration;
/// use tickless::future::MissedTickBehavior;
///
/// let mut heartbeat = tickless::interval(Duration::from_secs(10));
/// assert_eq!(heartbeat.missed_tick_behavior(), MissedTickBehavior::Burst);
/// heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// Ticks at once for each tick that was missed, and then continues as if none had been. There
    /// are as many ticks as periods. The default.
    #[default]
    Burst,
    /// The next tick is one period after the missed tick was returned. (A tick that is late, but
    /// not missed, puts nothing off: the one after it may be closer than a period.) Intervals that
    /// were once late together stay together.
    Delay,
    /// Skips the missed ticks. The next tick is at the next multiple of the period from the start.
    Skip,
}

/// Ticks every `period` on the [ambient engine](Engine::enter). The first tick is due at once.
///
/// Many intervals of one period that start together tick together: give each a start of its own
/// ([`interval_at`]). With [`MissedTickBehavior::Delay`], those that were once late together stay
/// together.
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
/// If the period is zero. Also as [`Engine::global`] does, if this is its first use.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    Interval::new(sleep(Duration::ZERO), period)
}

/// Ticks every `period` on the [ambient engine](Engine::enter). The first tick is due at `start`,
/// by its clock.
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
/// If the period is zero. Also as [`Engine::global`] does, if this is its first use.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(sleep_until(start), period)
}

// === impl Engine: intervals ===

impl Engine {
    /// As [`interval`](crate::interval), on this engine.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let mut interval = engine.interval(Duration::from_secs(10));
    /// let begin = engine.now();
    /// assert_eq!(pollster::block_on(interval.tick()), begin);
    /// engine.advance(Duration::from_secs(10))?;
    /// assert_eq!(pollster::block_on(interval.tick()), begin + Duration::from_secs(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(Duration::ZERO, period)
    }

    /// As [`interval_at`](crate::interval_at), on this engine. `start` is a delay from this call,
    /// an [`Instant`] by the engine's clock, or a [`When`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::builder().precise(0.2).build()?;
    /// let mut pace = engine.interval_at(Duration::ZERO, Duration::from_micros(300));
    /// pollster::block_on(async {
    ///     for _ in 0..3 {
    ///         pace.tick().await;
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn interval_at(&self, start: impl Into<When>, period: Duration) -> Interval {
        Interval::new(self.sleep(start), period)
    }
}

// === impl Interval ===

impl Interval {
    #[track_caller]
    fn new(sleep: Sleep, period: Duration) -> Interval {
        assert!(!period.is_zero(), "an interval needs a period");
        let grace = GRACE.saturating_add(sleep.engine().tick().unwrap_or_default());
        let missed = MissedTickBehavior::default();
        Interval { sleep, period, grace, missed, has_ended: false }
    }

    /// Waits for the next tick and returns when it was due. If the tick was missed, that may be a
    /// while ago.
    ///
    /// Cancel safe: if the future is dropped before it returns, the tick is not lost.
    ///
    /// # Panics
    /// Where [`try_tick`](Interval::try_tick) returns an error.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, as [`tick`](Interval::tick) does. The tick wakes the task that
    /// polled last.
    ///
    /// # Panics
    /// As [`tick`](Interval::tick).
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let tick = ready!(self.poll_try_tick(cx));
        Poll::Ready(tick.unwrap_or_else(|error| panic!("an interval cannot tick: {error}")))
    }

    /// As [`tick`](Interval::tick), but returns an error instead of panicking.
    ///
    /// # Errors
    /// The engine has stopped, or the calling thread runs one of its tasks and [must not
    /// wait](SleepError::Circular).
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

    /// Polls for the next tick, as [`try_tick`](Interval::try_tick) does.
    ///
    /// # Errors
    /// As [`try_tick`](Interval::try_tick).
    pub fn poll_try_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Instant, SleepError>> {
        if let Err(error) = ready!(self.sleep.poll_elapsed(cx)) {
            return Poll::Ready(Err(error));
        }
        let deadline = self.sleep.deadline().expect("what has elapsed had a deadline");
        // If the engine is gone, the next tick returns the error.
        let now = self.sleep.engine().now().unwrap_or(deadline);
        let (due, next) = self.after(deadline, now);
        self.sleep.move_to(next.into());
        Poll::Ready(Ok(due))
    }

    /// When a tick whose timer has fired was due, and when the next one is (`None`: never).
    fn after(&self, deadline: Instant, now: Instant) -> (Instant, Option<Instant>) {
        // It lies far ahead if the clock counts suspended time, and there was some since the tick
        // was planned.
        let is_ahead = deadline.saturating_duration_since(now) > self.grace;
        let due = if is_ahead { now } else { deadline };
        let is_missed = now.saturating_duration_since(due) > self.grace;
        let behavior = if is_missed { self.missed } else { MissedTickBehavior::Burst };
        (due, behavior.next(due, now, self.period))
    }

    /// Restarts the interval: the next tick is due one period from now.
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

    /// Restarts the interval: the next tick is due at once, the one after it a period later.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Restarts the interval: the next tick is due `delay` from now.
    ///
    /// Intervals that are restarted in the same tick stay together; [`reset_at`](Self::reset_at)
    /// keeps them apart.
    pub fn reset_after(&mut self, delay: Duration) {
        self.sleep.reset(delay);
    }

    /// Restarts the interval: the next tick is due at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset(deadline);
    }

    /// Returns the period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns what the interval does after a missed tick. Default: [`MissedTickBehavior::Burst`].
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what the interval does after a missed tick, from the next tick on.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }
}

/// Yields the time at which each tick was due. Ends when the engine has stopped. (It also returns
/// `None` in a task of the engine that [must not wait](SleepError::Circular). One that is polled
/// after the end may yield a tick whose time has passed since.)
impl Stream for Interval {
    type Item = Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        let tick = ready!(self.poll_try_tick(cx)).ok();
        self.has_ended = tick.is_none();
        Poll::Ready(tick)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // The stream lasts as long as the engine runs, which is not known.
        (0, None)
    }
}

/// Terminated once it has ended, because the engine has stopped, until it is polled with success.
impl FusedStream for Interval {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

debug! { impl[] Interval[] {
    period = |this| this.period,
    next = |this| this.sleep.deadline(),
    missed_tick_behavior = |this| this.missed,
} }

// === impl MissedTickBehavior ===

impl MissedTickBehavior {
    /// Returns when the next tick is due, after a tick that was due at `due` and is returned at
    /// `now`. `None`: never.
    fn next(self, due: Instant, now: Instant, period: Duration) -> Option<Instant> {
        match self {
            MissedTickBehavior::Burst => due.checked_add(period),
            MissedTickBehavior::Delay => now.checked_add(period),
            MissedTickBehavior::Skip => {
                now.checked_add(left_of_period(period, now.saturating_duration_since(due)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_that_a_suspension_brought_forward_was_due_now_and_the_next_is_a_period_away() {
        let engine = Engine::builder().manual_clock(&crate::ManualClock::new()).build().unwrap();
        let (second, now) = (Duration::from_secs(1), engine.now());
        let mut interval = engine.interval(second * 10);
        for behavior in
            [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip]
        {
            interval.set_missed_tick_behavior(behavior);
            // As an `Instant`, which does not count the suspension.
            assert_eq!(interval.after(now + second * 8, now), (now, Some(now + second * 10)));
        }
    }
}
