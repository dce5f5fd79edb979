//! Why a timer was not scheduled.

use std::fmt;

/// Why a timer was not scheduled, with what was to be scheduled.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ScheduleError};
///
/// let engine = Engine::new()?;
/// engine.stop()?;
/// match engine.schedule(Duration::from_secs(1), || println!("late")) {
///     Err(error @ ScheduleError::Stopped(_)) => error.into_payload().run(),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError<T> {
    /// As many timers as `max_pending` allows are pending.
    Full(T),
    /// The engine has stopped.
    Stopped(T),
}

impl<T> ScheduleError<T> {
    /// What was to be scheduled.
    pub fn into_payload(self) -> T {
        match self {
            ScheduleError::Full(payload) | ScheduleError::Stopped(payload) => payload,
        }
    }

    /// Whether the engine was full.
    pub fn is_full(&self) -> bool {
        matches!(self, ScheduleError::Full(_))
    }

    /// Whether the engine had stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self, ScheduleError::Stopped(_))
    }
}

impl<T> fmt::Debug for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "Full(..)" } else { "Stopped(..)" })
    }
}

impl<T> fmt::Display for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScheduleError::Full(_) => "as many timers as allowed are pending",
            ScheduleError::Stopped(_) => "the engine has stopped",
        })
    }
}

impl<T> std::error::Error for ScheduleError<T> {}
