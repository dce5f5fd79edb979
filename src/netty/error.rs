//! Errors of creating a timeout and of starting a timer.

use std::fmt;

use crate::error::Exclusive;
use crate::sync::Arc;

use super::TimerTask;

/// The error of creating a timeout. It holds the task.
///
/// ```
/// use std::time::Duration;
/// use tickless::netty::{HashedWheelTimer, RejectReason, Timeout};
///
/// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
/// let hour = Duration::from_secs(3600);
/// let first = timer.new_timeout(|_: &Timeout| println!("an hour later"), hour)?;
/// let rejected = timer.new_timeout(|_: &Timeout| println!("too many"), hour).unwrap_err();
/// match rejected.reason() {
///     RejectReason::Full { max } => {
///         assert_eq!(max, 1);
///         assert!(first.cancel(), "which makes room at once");
///         timer.new_timeout(rejected.into_task(), hour)?;
///     }
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Rejected {
    reason: RejectReason,
    task: Exclusive<Arc<dyn TimerTask>>,
}

/// Why a timeout was not created.
///
/// ```
/// use std::time::Duration;
/// use tickless::netty::{HashedWheelTimer, RejectReason, Timeout};
///
/// let timer = HashedWheelTimer::new()?;
/// timer.stop()?;
/// let late = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(60));
/// assert_eq!(late.unwrap_err().reason(), RejectReason::Stopped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectReason {
    /// The timer already has as many waiting timeouts as
    /// [`max_pending_timeouts`](super::Builder::max_pending_timeouts) allows.
    Full {
        /// That maximum.
        max: u64,
    },
    /// The timer has stopped or is stopping.
    Stopped,
}

/// The error of starting a timer.
///
/// ```
/// use tickless::netty::{HashedWheelTimer, StartError};
///
/// let timer = HashedWheelTimer::new()?;
/// timer.stop()?;
/// assert_eq!(timer.start(), Err(StartError::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The timer has stopped, and cannot be started again.
    Stopped,
}

// === impl Rejected ===

impl Rejected {
    pub(super) fn new(reason: RejectReason, task: Arc<dyn TimerTask>) -> Rejected {
        Rejected { reason, task: Exclusive::new(task) }
    }

    /// The reason.
    pub fn reason(&self) -> RejectReason {
        self.reason
    }

    /// The task that was to run.
    pub fn into_task(self) -> Arc<dyn TimerTask> {
        self.task.into_inner()
    }

    /// Whether the timer was full.
    pub fn is_full(&self) -> bool {
        matches!(self.reason, RejectReason::Full { .. })
    }

    /// Whether the timer had stopped.
    pub fn is_stopped(&self) -> bool {
        self.reason == RejectReason::Stopped
    }
}

debug! { impl[] Rejected[] { reason = |this| this.reason } }

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for Rejected {}

// === impl RejectReason ===

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RejectReason::Full { max } => {
                write!(f, "as many timeouts as allowed are waiting ({max})")
            }
            RejectReason::Stopped => f.write_str("the timer has stopped"),
        }
    }
}

// === impl StartError ===

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Stopped => f.write_str("a timer that has stopped cannot be started"),
        }
    }
}

impl std::error::Error for StartError {}
