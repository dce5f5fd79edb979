//! Methods on engines, and on futures.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::engine::{Engine, EngineRef, TypedEngine};

use super::{Interval, Sleep, Timeout};

/// Sleeps, timeouts and intervals on an engine of one's own: for [`Engine`] and for
/// [`TypedEngine<Task>`](TypedEngine), whose tasks a handler runs.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::future::EngineExt;
///
/// let engine = Engine::builder().tick(Duration::from_micros(100)).shards(1).build()?;
/// pollster::block_on(engine.sleep(Duration::from_micros(300)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait EngineExt: RunsTasks {
    /// As [`sleep`](crate::sleep), on this engine.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::EngineExt;
    /// let engine = Engine::new()?;
    /// pollster::block_on(engine.sleep(Duration::from_millis(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn sleep(&self, delay: Duration) -> Sleep {
        Sleep::after(EngineRef::new(self.as_tasks()), delay)
    }

    /// As [`sleep_until`](crate::sleep_until), on this engine: `deadline` is one of its clock's.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::EngineExt;
    /// let engine = Engine::new()?;
    /// pollster::block_on(engine.sleep_until(engine.now() + Duration::from_millis(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(EngineRef::new(self.as_tasks()), Some(deadline))
    }

    /// As [`timeout`](crate::timeout), on this engine.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::EngineExt;
    /// let engine = Engine::new()?;
    /// let answer = engine.timeout(Duration::from_secs(5), async { 7 });
    /// assert_eq!(pollster::block_on(answer), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn timeout<F: IntoFuture>(&self, delay: Duration, future: F) -> Timeout<F::IntoFuture> {
        let sleep = self.sleep(delay);
        Timeout::new(future.into_future(), sleep)
    }

    /// As [`timeout_at`](crate::timeout_at), on this engine: `deadline` is one of its clock's.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::EngineExt;
    /// let engine = Engine::new()?;
    /// let answer = engine.timeout_at(engine.now() + Duration::from_secs(5), async { 7 });
    /// assert_eq!(pollster::block_on(answer), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn timeout_at<F: IntoFuture>(&self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

    /// As [`interval`](crate::interval), on this engine.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::future::EngineExt;
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
    /// The period is zero.
    #[track_caller]
    fn interval(&self, period: Duration) -> Interval {
        Interval::from_now(EngineRef::new(self.as_tasks()), period)
    }

    /// As [`interval_at`](crate::interval_at), on this engine: `start` is one of its clock's.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::EngineExt;
    /// let engine = Engine::new()?;
    /// let start = engine.now() + Duration::from_millis(2);
    /// let mut interval = engine.interval_at(start, Duration::from_secs(10));
    /// assert_eq!(pollster::block_on(interval.tick()), start);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// The period is zero.
    #[track_caller]
    fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(EngineRef::new(self.as_tasks()), Some(start), period)
    }
}

/// Deadlines for any future.
///
/// ```
/// use std::time::Duration;
/// use tickless::future::FutureExt;
///
/// let answer = async { 7 }.timeout(Duration::from_secs(5));
/// assert_eq!(pollster::block_on(answer), Ok(7));
/// ```
pub trait FutureExt: IntoFuture + Sized {
    /// As [`timeout`](crate::timeout).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::future::FutureExt;
    /// let never = std::future::pending::<()>().timeout(Duration::from_millis(2));
    /// assert!(pollster::block_on(never).is_err());
    /// ```
    ///
    /// # Panics
    /// As [`Engine::global`], if this is its first use.
    fn timeout(self, delay: Duration) -> Timeout<Self::IntoFuture> {
        super::timeout(delay, self)
    }

    /// As [`timeout_at`](crate::timeout_at).
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use tickless::future::FutureExt;
    /// let answer = async { 7 }.timeout_at(Instant::now() + Duration::from_secs(5));
    /// assert_eq!(pollster::block_on(answer), Ok(7));
    /// ```
    ///
    /// # Panics
    /// As [`Engine::global`], if this is its first use.
    fn timeout_at(self, deadline: Instant) -> Timeout<Self::IntoFuture> {
        super::timeout_at(deadline, self)
    }

    /// As [`timeout`](FutureExt::timeout), on an engine of one's own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::FutureExt;
    /// let engine = Engine::new()?;
    /// let answer = async { 7 }.timeout_on(&engine, Duration::from_secs(5));
    /// assert_eq!(pollster::block_on(answer), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn timeout_on<E: EngineExt + ?Sized>(
        self,
        engine: &E,
        delay: Duration,
    ) -> Timeout<Self::IntoFuture> {
        engine.timeout(delay, self)
    }

    /// As [`timeout_at`](FutureExt::timeout_at), on an engine of one's own: `deadline` is one of
    /// its clock's.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::future::FutureExt;
    /// let engine = Engine::new()?;
    /// let answer = async { 7 }.timeout_at_on(&engine, engine.now() + Duration::from_secs(5));
    /// assert_eq!(pollster::block_on(answer), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn timeout_at_on<E: EngineExt + ?Sized>(
        self,
        engine: &E,
        deadline: Instant,
    ) -> Timeout<Self::IntoFuture> {
        engine.timeout_at(deadline, self)
    }
}

/// Engines whose payload is a [`Task`]: nobody else can implement this.
pub trait RunsTasks {
    #[doc(hidden)]
    fn as_tasks(&self) -> &TypedEngine<Task>;
}

// === impl EngineExt ===

impl RunsTasks for Engine {
    fn as_tasks(&self) -> &TypedEngine<Task> {
        self.as_typed()
    }
}

impl RunsTasks for TypedEngine<Task> {
    fn as_tasks(&self) -> &TypedEngine<Task> {
        self
    }
}

impl<E: RunsTasks + ?Sized> EngineExt for E {}

// === impl FutureExt ===

impl<F: IntoFuture> FutureExt for F {}
