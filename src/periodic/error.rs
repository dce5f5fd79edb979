//! Why something that repeats was not started.

use std::fmt;

use crate::error::Exclusive;

use super::End;

/// Why something that repeats was not started, with what was to run.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Run, Schedule, StartReason};
///
/// let engine = Engine::new()?;
/// let task = |run: &Run| println!("run {}", run.number());
/// let refused = Schedule::fixed_rate(Duration::ZERO).start(&engine, task).unwrap_err();
/// match refused.reason() {
///     StartReason::ZeroPeriod => {
///         let second = Duration::from_secs(1);
///         Schedule::fixed_rate(second).start(&engine, refused.into_task())?;
///     }
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StartError<F> {
    reason: StartReason,
    task: Exclusive<F>,
}

/// Why something that repeats was not started.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Heartbeat, StartReason};
///
/// let refused = Heartbeat::new(&Engine::new()?, Duration::ZERO, || println!("silence"));
/// assert_eq!(refused.unwrap_err().reason(), StartReason::ZeroPeriod);
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartReason {
    /// The period, the delay or the timeout is zero.
    ZeroPeriod,
    /// The schedule has no first run.
    NoRun,
    /// As many timers as the engine's `max_pending` allows are pending.
    Full,
    /// The engine has stopped.
    Stopped,
}

// === impl StartError ===

impl<F> StartError<F> {
    pub(super) fn new(reason: StartReason, task: F) -> StartError<F> {
        StartError { reason, task: Exclusive::new(task) }
    }

    /// Why it was not started.
    pub fn reason(&self) -> StartReason {
        self.reason
    }

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
        self.task.into_inner()
    }

    /// The same error, about what `f` makes of what was to run.
    pub(super) fn map<G>(self, f: impl FnOnce(F) -> G) -> StartError<G> {
        StartError::new(self.reason, f(self.task.into_inner()))
    }

    /// The error of a first arming that ended like that.
    pub(super) fn of(end: End, task: F) -> StartError<F> {
        let reason = match end {
            End::Full => StartReason::Full,
            _ => StartReason::Stopped,
        };
        StartError::new(reason, task)
    }
}

impl<F> fmt::Debug for StartError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for StartError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<F> std::error::Error for StartError<F> {}

// === impl StartReason ===

impl fmt::Display for StartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartReason::ZeroPeriod => "the period is zero",
            StartReason::NoRun => "the schedule has no first run",
            StartReason::Full => "as many timers as allowed are pending",
            StartReason::Stopped => "the engine has stopped",
        })
    }
}
