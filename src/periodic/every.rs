//! Periodics as a method of the engine.

use std::time::Duration;

use crate::engine::Engine;

use super::{Periodic, Run, Schedule, StartError};

/// Gives an [`Engine`] a method for the periodic that most programs want.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::Every;
///
/// let engine = Engine::new()?;
/// let flush = engine.every(Duration::from_secs(1), |_| println!("flush"))?;
/// assert!(flush.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Every {
    /// Runs `task` each `period`: [`Schedule::fixed_rate`], [started](Schedule::start).
    ///
    /// # Errors
    /// The period is zero, or the engine is full or has stopped. The task comes back in the error.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Every;
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let second = Duration::from_secs(1);
    /// let periodic = engine.every(second, |run| println!("run {}", run.number()))?;
    /// engine.advance(5 * second)?;
    /// assert_eq!(periodic.runs(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn every<F>(&self, period: Duration, task: F) -> Result<Periodic, StartError<F>>
    where
        F: FnMut(&Run) + Send + 'static;
}

impl Every for Engine {
    fn every<F>(&self, period: Duration, task: F) -> Result<Periodic, StartError<F>>
    where
        F: FnMut(&Run) + Send + 'static,
    {
        Schedule::fixed_rate(period).start(self, task)
    }
}
