//! Why something that repeats was not started.

use std::fmt;

use super::End;

/// Why something that repeats was not started, with what was to run.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Run, Schedule, StartError};
///
/// let engine = Engine::new()?;
/// let task = |run: &Run| println!("run {}", run.number());
/// match Schedule::fixed_rate(Duration::ZERO).start(&engine, task) {
///     Err(StartError::ZeroPeriod(task)) => {
///         Schedule::fixed_rate(Duration::from_secs(1)).start(&engine, task)?;
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError<F> {
    /// The period, the delay or the timeout is zero.
    ZeroPeriod(F),
    /// The schedule has no first run.
    NoRun(F),
    /// As many timers as the engine's `max_pending` allows are pending.
    Full(F),
    /// The engine has stopped.
    Stopped(F),
}

// === impl StartError ===

impl<F> StartError<F> {
    /// What was to run.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::Heartbeat;
    /// let engine = Engine::new()?;
    /// engine.stop()?;
    /// let refused = Heartbeat::new(&engine, Duration::from_secs(1), || println!("silence"));
    /// let on_silence = refused.unwrap_err().into_task();
    /// on_silence();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_task(self) -> F {
        match self {
            StartError::ZeroPeriod(task)
            | StartError::NoRun(task)
            | StartError::Full(task)
            | StartError::Stopped(task) => task,
        }
    }

    /// The same error, about what `f` makes of what was to run.
    pub(super) fn map<G>(self, f: impl FnOnce(F) -> G) -> StartError<G> {
        match self {
            StartError::ZeroPeriod(task) => StartError::ZeroPeriod(f(task)),
            StartError::NoRun(task) => StartError::NoRun(f(task)),
            StartError::Full(task) => StartError::Full(f(task)),
            StartError::Stopped(task) => StartError::Stopped(f(task)),
        }
    }

    /// The error of a first arming that ended like that.
    pub(super) fn of(end: End, task: F) -> StartError<F> {
        match end {
            End::Full => StartError::Full(task),
            _ => StartError::Stopped(task),
        }
    }
}

impl<F> fmt::Debug for StartError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartError::ZeroPeriod(_) => "ZeroPeriod(..)",
            StartError::NoRun(_) => "NoRun(..)",
            StartError::Full(_) => "Full(..)",
            StartError::Stopped(_) => "Stopped(..)",
        })
    }
}

impl<F> fmt::Display for StartError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartError::ZeroPeriod(_) => "the period is zero",
            StartError::NoRun(_) => "the schedule has no first run",
            StartError::Full(_) => "as many timers as allowed are pending",
            StartError::Stopped(_) => "the engine has stopped",
        })
    }
}

impl<F> std::error::Error for StartError<F> {}
