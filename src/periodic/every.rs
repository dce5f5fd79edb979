//! `Engine::every`.

use std::time::Duration;

use crate::engine::Engine;

use super::{Periodic, Run, Schedule, StartError};

// === impl Engine: periodics ===

impl Engine {
    /// Runs `task` every `period`: [`Schedule::fixed_rate`], [started](Schedule::start).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let second = Duration::from_secs(1);
    /// let periodic = engine.every(second, |run| println!("run {}", run.number()))?;
    /// engine.advance(5 * second)?;
    /// assert_eq!(periodic.runs(), 5);
    /// assert!(periodic.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The period is zero, or the engine is full or has stopped. The error returns the task.
    pub fn every<F>(&self, period: Duration, task: F) -> Result<Periodic, StartError<F>>
    where
        F: FnMut(&Run) + Send + 'static,
    {
        Schedule::fixed_rate(period).start(self, task)
    }
}
