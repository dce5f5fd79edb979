//! Why a timer was not moved.

use std::fmt;

/// Why a timer was not moved.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock, ResetError};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let mut save = engine.schedule(second, || println!("saved"))?;
/// assert_eq!(save.reset(2 * second), Ok(()), "somebody types: save later");
/// engine.advance(2 * second)?;
/// // It was saved meanwhile, so later typing needs a timer of its own.
/// match save.reset(second) {
///     Ok(()) => println!("moved"),
///     Err(ResetError::TooLate) => save = engine.schedule(second, || println!("saved again"))?,
///     Err(error) => return Err(error.into()),
/// }
/// assert!(save.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResetError {
    /// The timer has fired: its payload was handed over, or is being handed over right now.
    TooLate,
    /// The engine has stopped. The stop returned the payload. Or, if the stop came while the timer
    /// was being moved, the payload is still in the handle: [`Handle::take`] then returns it, once.
    ///
    /// [`Handle::take`]: crate::Handle::take
    Stopped,
}

impl fmt::Display for ResetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResetError::TooLate => "the timer has fired already",
            ResetError::Stopped => "the engine has stopped",
        })
    }
}

impl std::error::Error for ResetError {}
