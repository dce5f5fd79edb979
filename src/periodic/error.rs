//! Errors of starting a periodic, a retry or a heartbeat.

use crate::error::Refused;

/// The error of starting a periodic, a retry or a heartbeat. It returns the closure that was to
/// run, or the two closures of a retry.
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
///         Schedule::fixed_rate(second).start(&engine, refused.into_payload())?;
///     }
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type StartError<F> = Refused<StartReason, F>;

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

// === impl StartReason ===

display! { StartReason {
    ZeroPeriod => "the period is zero",
    NoRun => "the schedule has no first run",
    Full => "as many timers as allowed are pending",
    Stopped => "the engine has stopped",
} }
