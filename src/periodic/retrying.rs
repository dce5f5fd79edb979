//! The caller's end of a retry.

use std::fmt;
use std::ops::Deref;

use crate::sync::Arc;

use super::End;

/// The caller's end of a retry that is under way: cancel it, and ask how it is.
///
/// Clones are cheap and are the same retry. Dropping every clone leaves it going;
/// [`cancel_on_drop`](Retrying::cancel_on_drop) is for the opposite.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{Backoff, Retry};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let attempt = |_| Err::<(), _>("no route");
/// let retrying = Retry::new(Backoff::new(second)).run(&engine, attempt, drop)?;
/// engine.advance(4 * second)?;
/// assert_eq!(retrying.attempts(), 3, "at 0, 1 and 3 seconds");
/// assert!(retrying.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Retrying {
    state: Arc<dyn State>,
}

/// A [`Retrying`] that is cancelled when this is dropped.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Backoff, Retry};
///
/// let engine = Engine::new()?;
/// let attempt = |_| Err::<(), _>("no route");
/// let retrying = Retry::new(Backoff::new(Duration::from_secs(9))).run(&engine, attempt, drop)?;
/// drop(retrying.clone().cancel_on_drop());
/// assert!(!retrying.is_running());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a guard that is dropped at once cancels at once"]
pub struct RetryGuard {
    retrying: Option<Retrying>,
}

/// A retry whose types have been forgotten.
pub(super) trait State: Send + Sync {
    fn cancel(&self) -> bool;
    fn end(&self) -> Option<End>;
    fn attempts(&self) -> u32;
}

// === impl Retrying ===

impl Retrying {
    pub(super) fn of(state: Arc<dyn State>) -> Retrying {
        Retrying { state }
    }

    /// Cancels. `true`, for one caller: no attempt begins any more, and the retry comes out as
    /// [`Outcome::Ended`](super::Outcome::Ended), whatever an attempt under way brings. That was
    /// told here, on this thread; or, if an attempt is just being started (or answered), is when
    /// that returns, which this does not wait for. `false`: it was over before.
    ///
    /// # Panics
    /// With what `done` panics with; all else is done by then.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// let attempt = |_| Err::<(), _>("no route");
    /// let retry = Retry::new(Backoff::new(Duration::from_secs(9)));
    /// let retrying = retry.run(&engine, attempt, drop)?;
    /// assert!(retrying.cancel());
    /// assert!(!retrying.cancel(), "it was cancelled before");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.state.cancel()
    }

    /// Whether it has not come out yet.
    pub fn is_running(&self) -> bool {
        self.end().is_none()
    }

    /// Why it is over; `None`: it is not. [`End::Finished`]: it succeeded or gave up.
    pub fn end(&self) -> Option<End> {
        self.state.end()
    }

    /// How many attempts have begun.
    pub fn attempts(&self) -> u32 {
        self.state.attempts()
    }

    /// Turns the handle into one that cancels the retry when it is dropped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// let attempt = |_| Err::<(), _>("no route");
    /// let _connecting = Retry::new(Backoff::new(Duration::from_secs(9)))
    ///     .run(&engine, attempt, drop)?
    ///     .cancel_on_drop();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_on_drop(self) -> RetryGuard {
        RetryGuard { retrying: Some(self) }
    }
}

impl fmt::Debug for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (end, attempts) = (self.end(), self.attempts());
        f.debug_struct("Retrying").field("end", &end).field("attempts", &attempts).finish()
    }
}

// === impl RetryGuard ===

impl RetryGuard {
    /// Gives the handle back: the retry goes on after all.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Backoff, Retry};
    /// # let engine = Engine::new()?;
    /// let attempt = |_| Err::<(), _>("no route");
    /// let retry = Retry::new(Backoff::new(Duration::from_secs(9)));
    /// let retrying = retry.run(&engine, attempt, drop)?;
    /// let retrying = retrying.cancel_on_drop().into_handle();
    /// assert!(retrying.is_running());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_handle(mut self) -> Retrying {
        self.retrying.take().expect("a guard has its handle until it is dropped")
    }
}

impl Deref for RetryGuard {
    type Target = Retrying;

    fn deref(&self) -> &Retrying {
        self.retrying.as_ref().expect("a guard has its handle until it is dropped")
    }
}

impl Drop for RetryGuard {
    fn drop(&mut self) {
        if let Some(retrying) = self.retrying.take() {
            retrying.cancel();
        }
    }
}

impl fmt::Debug for RetryGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryGuard").field(&**self).finish()
    }
}
