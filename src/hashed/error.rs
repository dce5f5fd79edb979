//! Why a timeout was not made, and why a timer was not started.

use std::fmt;

use crate::sync::Arc;

use super::TimerTask;

/// Why a timeout was not made, with its task.
///
/// ```
/// use std::time::Duration;
/// use tickless::hashed::{HashedWheelTimer, Rejected, Timeout};
///
/// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
/// let hour = Duration::from_secs(3600);
/// let first = timer.new_timeout(|_: &Timeout| println!("an hour later"), hour)?;
/// match timer.new_timeout(|_: &Timeout| println!("too many"), hour) {
///     Err(Rejected::Full { max, task }) => {
///         assert_eq!(max, 1);
///         assert!(first.cancel(), "which makes room at once");
///         timer.new_timeout(task, hour)?;
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub enum Rejected {
    /// As many timeouts are waiting as
    /// [`max_pending_timeouts`](super::Builder::max_pending_timeouts) allows.
    Full {
        /// How many that is.
        max: u64,
        /// What was to run.
        task: Arc<dyn TimerTask>,
    },
    /// The timer has stopped, or is just stopping.
    Stopped {
        /// What was to run.
        task: Arc<dyn TimerTask>,
    },
}

/// Why a timer was not started.
///
/// ```
/// use tickless::hashed::{HashedWheelTimer, StartError};
///
/// let timer = HashedWheelTimer::new()?;
/// timer.stop()?;
/// assert_eq!(timer.start(), Err(StartError::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The timer has stopped, and stays so.
    Stopped,
}

// === impl Rejected ===

impl Rejected {
    /// What was to run.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::hashed::{HashedWheelTimer, Timeout};
    /// let (old, new) = (HashedWheelTimer::new()?, HashedWheelTimer::new()?);
    /// old.stop()?;
    /// let minute = Duration::from_secs(60);
    /// let rejected = old.new_timeout(|_: &Timeout| println!("due"), minute).unwrap_err();
    /// let timeout = new.new_timeout(rejected.into_task(), minute)?;
    /// assert!(!timeout.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_task(self) -> Arc<dyn TimerTask> {
        match self {
            Rejected::Full { task, .. } | Rejected::Stopped { task } => task,
        }
    }

    /// Whether the timer was full.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::hashed::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
    /// let minute = Duration::from_secs(60);
    /// let first = timer.new_timeout(|_: &Timeout| println!("due"), minute)?;
    /// let second = timer.new_timeout(|_: &Timeout| println!("due"), minute);
    /// assert!(second.is_err_and(|rejected| rejected.is_full()), "later there may be room");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, Rejected::Full { .. })
    }

    /// Whether the timer had stopped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::hashed::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// timer.stop()?;
    /// let late = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(60));
    /// assert!(late.is_err_and(|rejected| rejected.is_stopped()), "and it stays so");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_stopped(&self) -> bool {
        matches!(self, Rejected::Stopped { .. })
    }
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejected::Full { max, .. } => {
                f.debug_struct("Full").field("max", max).finish_non_exhaustive()
            }
            Rejected::Stopped { .. } => f.debug_struct("Stopped").finish_non_exhaustive(),
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejected::Full { max, .. } => {
                write!(f, "as many timeouts as allowed are waiting ({max})")
            }
            Rejected::Stopped { .. } => f.write_str("the timer has stopped"),
        }
    }
}

impl std::error::Error for Rejected {}

// === impl StartError ===

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Stopped => f.write_str("a timer that has stopped cannot be started"),
        }
    }
}

impl std::error::Error for StartError {}
