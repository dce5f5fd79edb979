//! The results of scheduling or resetting a timer under a key.

use tickless::internal::display;
use tickless::{Refused, ScheduleError, Task};

/// Whether a new timer has replaced another.
///
/// ```
/// use std::time::Duration;
/// use tickless_keyed::{KeyedTimers, Scheduled};
///
/// let timers = KeyedTimers::new()?;
/// let second = Duration::from_secs(1);
/// assert_eq!(timers.schedule_keyed("key", second, || ())?, Scheduled::New);
/// assert_eq!(timers.schedule_keyed("key", second, || ())?, Scheduled::Replaced);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduled {
    /// No timer waited under the key. If one was scheduled before, its task has run or has started,
    /// or it was cancelled.
    New,
    /// Another timer waited under the key and was replaced. It will never run, and its task was
    /// dropped.
    Replaced,
}

/// The error of [`KeyedTimers::schedule_if_absent`]. It returns the task.
///
/// ```
/// use std::time::Duration;
/// use tickless_keyed::{IfAbsentReason, KeyedTimers};
///
/// let timers = KeyedTimers::new()?;
/// let second = Duration::from_secs(1);
/// timers.schedule_if_absent("key", second, || println!("first"))?;
/// let refused = timers.schedule_if_absent("key", second, || println!("second")).unwrap_err();
/// match refused.reason() {
///     IfAbsentReason::Occupied => refused.into_payload().run(),
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`KeyedTimers::schedule_if_absent`]: super::KeyedTimers::schedule_if_absent
pub type IfAbsentError = Refused<IfAbsentReason, Task>;

/// Why [`KeyedTimers::schedule_if_absent`] did not schedule a timer.
///
/// ```
/// use std::time::Duration;
/// use tickless_keyed::{IfAbsentReason, KeyedTimers};
///
/// let timers = KeyedTimers::new()?;
/// timers.engine().stop()?;
/// let refused = timers.schedule_if_absent("key", Duration::from_secs(1), || ()).unwrap_err();
/// assert_eq!(refused.reason(), IfAbsentReason::Stopped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`KeyedTimers::schedule_if_absent`]: super::KeyedTimers::schedule_if_absent
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IfAbsentReason {
    /// Another timer was waiting under the key.
    Occupied,
    /// The engine has as many pending timers as its `max_pending` allows.
    Full,
    /// The engine has stopped.
    Stopped,
}

/// The error of [`KeyedTimers::reset`], and of extending an entry of a [`TtlMap`]: why the timer
/// was not moved.
///
/// ```
/// use std::time::Duration;
/// use tickless_keyed::{KeyedTimers, ResetError};
///
/// let timers = KeyedTimers::new()?;
/// timers.schedule_keyed("key", Duration::from_secs(1), || ())?;
/// let returned = timers.engine().stop()?;
/// assert_eq!(timers.reset("key", Duration::from_secs(9)), Err(ResetError::Stopped));
/// drop(returned);
/// assert_eq!(timers.reset("key", Duration::from_secs(9)), Err(ResetError::Absent));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`KeyedTimers::reset`]: super::KeyedTimers::reset
/// [`TtlMap`]: super::TtlMap
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResetError {
    /// No timer waits under the key: none was scheduled, or its task has started, or it was
    /// cancelled. Of a `TtlMap`: there is no entry, or its time has come.
    Absent,
    /// The engine has as many pending timers as its `max_pending` allows. A move to an earlier time
    /// briefly needs a second timer. The timer waits as before.
    Full,
    /// The engine has stopped.
    Stopped,
}

/// The refusal of a timer that was to replace whatever waits: only the engine refuses that.
pub(super) fn by_the_engine<T>(refused: Refused<IfAbsentReason, T>) -> ScheduleError<T> {
    let is_full = refused.reason() == IfAbsentReason::Full;
    let payload = refused.into_payload();
    if is_full { ScheduleError::full(payload) } else { ScheduleError::stopped(payload) }
}

impl std::error::Error for IfAbsentReason {}

display! { IfAbsentReason {
    Occupied => "another timer is waiting under the key",
    Full => "as many timers as allowed are pending",
    Stopped => "the engine has stopped",
} }

display! { ResetError {
    Absent => "no timer waits under the key",
    Full => "as many timers as allowed are pending",
    Stopped => "the engine has stopped",
} }

impl std::error::Error for ResetError {}
