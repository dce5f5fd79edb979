//! The caller's handle of a retry.

use std::fmt;

use crate::engine::{Cancel, CancelOnDrop};
use crate::sync::Arc;

use super::End;

/// The caller's handle of a retry that is under way: cancel or inspect it.
///
/// Clones are cheap and refer to the same retry. If every clone is dropped, the retry goes on;
/// [`cancel_on_drop`](Retrying::cancel_on_drop) changes that.
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

/// A retry with its types erased.
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

    /// Cancels the retry. Returns `true` to one caller: no further attempt begins, and the outcome
    /// is [`Outcome::Ended`](super::Outcome::Ended), whatever an attempt under way brings. `done`
    /// was called here, on this thread. If an attempt is just being started or answered, `done` is
    /// called when that returns instead, and this call does not wait for it. `false`: the retry was
    /// over before.
    ///
    /// # Panics
    /// Propagates a panic of `done`, after everything else is done.
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

    /// Whether the retry is not over yet.
    pub fn is_running(&self) -> bool {
        self.end().is_none()
    }

    /// Why the retry is over; `None` if it is not. [`End::Finished`]: it succeeded or gave up.
    pub fn end(&self) -> Option<End> {
        self.state.end()
    }

    /// How many attempts have begun.
    pub fn attempts(&self) -> u32 {
        self.state.attempts()
    }

    /// Turns the handle into one that cancels the retry when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<Retrying> {
        CancelOnDrop::new(self)
    }
}

impl Cancel for Retrying {
    fn cancel(self) {
        Retrying::cancel(&self);
    }
}

impl fmt::Debug for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (end, attempts) = (self.end(), self.attempts());
        f.debug_struct("Retrying").field("end", &end).field("attempts", &attempts).finish()
    }
}
