//! Errors of starting a periodic, a retry or a heartbeat.

use std::fmt;

use crate::error::Exclusive;

use super::End;

/// The error of starting a periodic, a retry or a heartbeat. It holds the closure that was to run.
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

/// Why a periodic, a retry or a heartbeat was not started.
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
    /// The closure of the schedule returned no first run.
    NoRun,
    /// The engine already has as many pending timers as its `max_pending` allows.
    Full,
    /// The engine has stopped.
    Stopped,
}

// === impl StartError ===

impl<F> StartError<F> {
    pub(super) fn new(reason: StartReason, task: F) -> StartError<F> {
        StartError { reason, task: Exclusive::new(task) }
    }

    /// The reason.
    pub fn reason(&self) -> StartReason {
        self.reason
    }

    /// The closure that was to run, or the two closures of a retry.
    pub fn into_task(self) -> F {
        self.task.into_inner()
    }

    /// The same error, with `f` applied to what was to run.
    pub(super) fn map<G>(self, f: impl FnOnce(F) -> G) -> StartError<G> {
        StartError::new(self.reason, f(self.task.into_inner()))
    }

    /// The error for a first arming that ended with `end`.
    pub(super) fn of(end: End, task: F) -> StartError<F> {
        let reason = match end {
            End::Full => StartReason::Full,
            _ => StartReason::Stopped,
        };
        StartError::new(reason, task)
    }
}

debug! { impl[F] StartError[F] { reason = |this| this.reason } }

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
