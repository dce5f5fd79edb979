//! Errors of registering an operation.

use std::fmt;

use crate::error::Exclusive;
use crate::sync::Arc;

/// The error of registering an operation. It holds the operation. None of the operation's callbacks
/// was called except `try_complete`, and none will be.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tickless::purgatory::{Operation, Purgatory, WatchReason};
///
/// struct Fetch;
/// impl Operation for Fetch {
///     fn try_complete(&self) -> bool {
///         false
///     }
///     fn on_complete(&self) {}
/// }
///
/// let purgatory = Purgatory::new()?;
/// purgatory.stop();
/// let fetch = Arc::new(Fetch);
/// let timeout = Duration::from_secs(30);
/// let refused = purgatory.try_complete_else_watch(fetch.clone(), [1], timeout).unwrap_err();
/// assert_eq!(refused.reason(), WatchReason::Stopped);
/// assert!(Arc::ptr_eq(&refused.into_operation(), &fetch));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WatchError<O> {
    reason: WatchReason,
    operation: Exclusive<Arc<O>>,
}

/// Why an operation was not accepted.
///
/// ```
/// use std::time::Duration;
/// use tickless::purgatory::{Operation, Purgatory, WatchReason};
///
/// struct Fetch;
/// impl Operation for Fetch {
///     fn try_complete(&self) -> bool {
///         false
///     }
///     fn on_complete(&self) {}
/// }
///
/// let purgatory: Purgatory<u64, Fetch> = Purgatory::new()?;
/// let refused = purgatory.try_complete_else_watch(Fetch.into(), [], Duration::from_secs(30));
/// assert_eq!(refused.unwrap_err().reason(), WatchReason::NoKeys);
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchReason {
    /// It had no key, so no check could ever find it. (It was not tried either.)
    NoKeys,
    /// The engine already has as many pending timers as its `max_pending` allows.
    Full,
    /// The purgatory or its engine has stopped.
    Stopped,
}

// === impl WatchError ===

impl<O> WatchError<O> {
    pub(super) fn new(reason: WatchReason, operation: Arc<O>) -> WatchError<O> {
        WatchError { reason, operation: Exclusive::new(operation) }
    }

    /// The reason.
    pub fn reason(&self) -> WatchReason {
        self.reason
    }

    /// The operation.
    pub fn into_operation(self) -> Arc<O> {
        self.operation.into_inner()
    }

    /// Whether there was no key.
    pub fn is_no_keys(&self) -> bool {
        self.reason == WatchReason::NoKeys
    }

    /// Whether the engine was full.
    pub fn is_full(&self) -> bool {
        self.reason == WatchReason::Full
    }

    /// Whether the purgatory or its engine had stopped.
    pub fn is_stopped(&self) -> bool {
        self.reason == WatchReason::Stopped
    }
}

debug! { impl[O] WatchError[O] { reason = |this| this.reason } }

impl<O> fmt::Display for WatchError<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<O> std::error::Error for WatchError<O> {}

// === impl WatchReason ===

impl fmt::Display for WatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WatchReason::NoKeys => "an operation waits under at least one key",
            WatchReason::Full => "as many timers as allowed are pending",
            WatchReason::Stopped => "the purgatory or its engine has stopped",
        })
    }
}
