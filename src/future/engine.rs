//! Sleeps, timeouts and intervals as methods of an engine.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use crate::engine::{Engine, EngineRef};

use super::{Interval, Sleep, Timeout};

// === impl Engine: futures ===

impl Engine {
    /// As [`sleep`](crate::sleep), on this engine.
    pub fn sleep(&self, delay: Duration) -> Sleep {
        Sleep::after(EngineRef::new(self), delay)
    }

    /// As [`sleep_until`](crate::sleep_until), on this engine. `deadline` is by the engine's clock.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(EngineRef::new(self), Some(deadline))
    }

    /// As [`timeout`](crate::timeout), on this engine.
    pub fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        let sleep = self.sleep(delay);
        Timeout::new(future.into_future(), sleep)
    }

    /// As [`timeout_at`](crate::timeout_at), on this engine. `deadline` is by the engine's clock.
    pub fn timeout_at<F: IntoFuture>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

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
        Interval::from_now(EngineRef::new(self), period)
    }

    /// As [`interval_at`](crate::interval_at), on this engine. `start` is by the engine's clock.
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(EngineRef::new(self), Some(start), period)
    }
}
