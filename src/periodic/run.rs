//! One run of a periodic, as its task sees it.

use std::time::{Duration, Instant};

use crate::sync::{Arc, Ordering};

use super::armed::Arms;
use super::handle::Counters;

/// One run of a periodic, as its task sees it.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{Run, Schedule};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let mut left = 3;
/// let countdown = move |run: &Run| {
///     println!("{left}, {:?} late, {} missed", run.lateness(), run.missed());
///     left -= 1;
///     if left == 0 {
///         run.cancel();
///     }
/// };
/// let second = Duration::from_secs(1);
/// let periodic = Schedule::fixed_rate(second).start(&engine, countdown)?;
/// engine.advance(10 * second)?;
/// assert_eq!(periodic.runs(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run {
    armed: Arc<dyn Arms<Counters>>,
    number: u64,
    due_ns: u64,
}

// === impl Run ===

impl Run {
    /// The run that is beginning now.
    pub(super) fn new(armed: Arc<dyn Arms<Counters>>) -> Run {
        Run { number: armed.count(), due_ns: armed.due_ns(), armed }
    }

    /// The number of this run; the first is 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When this run was due, to the nanosecond. At a fixed rate this is a whole number of periods
    /// after the first run.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::{Run, Schedule};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let (begin, period) = (engine.now(), Duration::from_micros(1500));
    /// let task = move |run: &Run| {
    ///     assert_eq!(run.deadline(), begin + period * run.number() as u32);
    /// };
    /// Schedule::fixed_rate(period).start(&engine, task)?;
    /// engine.advance(1000 * period)?;
    /// assert_eq!(engine.stats().panicked, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Instant {
        self.armed.clock().instant_at(self.due_ns).unwrap_or_else(Instant::now)
    }

    /// How long ago this run was due, by the engine's clock: up to a tick, plus the time that the
    /// system and other tasks took. The value grows while the run goes on.
    pub fn lateness(&self) -> Duration {
        Duration::from_nanos(self.armed.clock().now_ns().saturating_sub(self.due_ns))
    }

    /// How many runs of a fixed rate have been skipped so far:
    /// [`Periodic::missed`](super::Periodic::missed).
    pub fn missed(&self) -> u64 {
        // ORDER: Relaxed - a count for observation only.
        self.armed.shared().missed.load(Ordering::Relaxed)
    }

    /// Makes this the last run: [`Periodic::cancel`](super::Periodic::cancel) from inside. The task
    /// is dropped when this run has ended.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::{Run, Schedule};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let once = |run: &Run| assert!(run.cancel());
    /// let periodic = Schedule::fixed_rate(Duration::from_secs(1)).start(&engine, once)?;
    /// engine.advance(Duration::from_secs(10))?;
    /// assert_eq!(periodic.runs(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.armed.cancel()
    }
}

debug! { impl[] Run[] { number = |this| this.number } }
