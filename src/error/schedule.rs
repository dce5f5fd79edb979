//! Why a timer was not scheduled.

use std::fmt;

use super::Exclusive;

/// Why a timer was not scheduled, together with its payload.
///
/// With `?` it converts into `Box<dyn Error + Send + Sync>` and the like, whatever the payload is.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ScheduleReason};
///
/// let engine = Engine::new()?;
/// engine.stop()?;
/// let refused = engine.schedule(Duration::from_secs(1), || println!("late")).unwrap_err();
/// match refused.reason() {
///     ScheduleReason::Stopped => refused.into_payload().run(),
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct ScheduleError<T> {
    reason: ScheduleReason,
    payload: Exclusive<T>,
}

/// Why a timer was not scheduled.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ScheduleReason};
///
/// let engine = Engine::builder().max_pending(1).build()?;
/// let first = engine.schedule(Duration::from_secs(60), || println!("due"))?;
/// let refused = engine.schedule(Duration::from_secs(60), || println!("due too"));
/// assert_eq!(refused.unwrap_err().reason(), ScheduleReason::Full);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduleReason {
    /// As many timers are pending as `max_pending` allows.
    Full,
    /// The engine has stopped.
    Stopped,
}

// === impl ScheduleError ===

impl<T> ScheduleError<T> {
    #[inline]
    pub(crate) fn full(payload: T) -> ScheduleError<T> {
        ScheduleError { reason: ScheduleReason::Full, payload: Exclusive::new(payload) }
    }

    #[inline]
    pub(crate) fn stopped(payload: T) -> ScheduleError<T> {
        ScheduleError { reason: ScheduleReason::Stopped, payload: Exclusive::new(payload) }
    }

    /// Returns why the timer was not scheduled.
    pub fn reason(&self) -> ScheduleReason {
        self.reason
    }

    /// Returns the payload.
    pub fn into_payload(self) -> T {
        self.payload.into_inner()
    }

    /// Maps the payload with `f`, and keeps the reason.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> ScheduleError<U> {
        let ScheduleError { reason, payload } = self;
        ScheduleError { reason, payload: Exclusive::new(f(payload.into_inner())) }
    }

    /// Whether the engine was full. There is room again once timers have fired or were cancelled.
    pub fn is_full(&self) -> bool {
        self.reason == ScheduleReason::Full
    }

    /// Whether the engine had stopped, which is for good.
    pub fn is_stopped(&self) -> bool {
        self.reason == ScheduleReason::Stopped
    }
}

debug! { impl[T] ScheduleError[T] { reason = |this| this.reason } }

impl<T> fmt::Display for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<T> std::error::Error for ScheduleError<T> {}

// === impl ScheduleReason ===

impl fmt::Display for ScheduleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScheduleReason::Full => "as many timers as allowed are pending",
            ScheduleReason::Stopped => "the engine has stopped",
        })
    }
}
