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
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine};
    /// let handler = |batch: Batch<'_, String>| drop(batch);
    /// let engine = Engine::builder().max_pending(1).build_typed(handler)?;
    /// let minute = Duration::from_secs(60);
    /// engine.schedule_detached(minute, "first".to_owned())?;
    /// let refused = engine.schedule_detached(minute, "second".to_owned()).unwrap_err();
    /// assert_eq!(refused.into_payload(), "second");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_payload(self) -> T {
        match self {
            ScheduleError::Full(payload) | ScheduleError::Stopped(payload) => payload,
        }
    }

    /// Whether the engine was full: when timers have fired or were cancelled there is room again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::builder().max_pending(1).build()?;
    /// let minute = Duration::from_secs(60);
    /// let first = engine.schedule(minute, || println!("due"))?;
    /// let refused = engine.schedule(minute, || println!("due too")).unwrap_err();
    /// assert!(refused.is_full());
    /// first.cancel();
    /// engine.as_typed().schedule_detached(minute, refused.into_payload())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, ScheduleError::Full(_))
    }

    /// Whether the engine had stopped: it stays so.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// engine.stop()?;
    /// let refused = engine.schedule(Duration::from_secs(60), || println!("due")).unwrap_err();
    /// assert!(refused.is_stopped(), "it would not help to try again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
