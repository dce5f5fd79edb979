//! Why a timer was not moved.

use std::fmt;

use super::Exclusive;

/// The engine stopped while a timer was being moved to an earlier time: the payload is back,
/// and will neither fire nor be returned by `stop`.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Batch, ResetError, Engine};
///
/// let engine = Engine::typed(|batch: Batch<'_, String>| drop(batch))?;
/// let mut retry = engine.schedule(Duration::from_secs(30), "GET /".to_owned())?;
/// // Another thread may be just about to stop the engine.
/// let outcome: Result<bool, ResetError<String>> = retry.reset(Duration::from_secs(5));
/// match outcome {
///     Ok(moved) => assert!(moved, "here nobody does"),
///     Err(stopped) => println!("{} will not be tried again", stopped.into_payload()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ResetError<T> {
    payload: Exclusive<T>,
}

impl<T> ResetError<T> {
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn new(payload: T) -> ResetError<T> {
        ResetError { payload: Exclusive::new(payload) }
    }

    /// What was scheduled.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, ResetError, Engine};
    /// # let engine = Engine::typed(|batch: Batch<'_, String>| drop(batch))?;
    /// let mut retry = engine.schedule(Duration::from_secs(30), "GET /".to_owned())?;
    /// let stranded = retry.reset(Duration::from_secs(5)).map_err(ResetError::into_payload);
    /// assert_eq!(stranded, Ok(true), "or the request, had the engine stopped meanwhile");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_payload(self) -> T {
        self.payload.into_inner()
    }
}

impl<T> fmt::Debug for ResetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for ResetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the engine stopped while the timer was being moved")
    }
}

impl<T> std::error::Error for ResetError<T> {}
