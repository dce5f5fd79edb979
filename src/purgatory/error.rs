//! Errors of registering an operation.

use crate::error::Refused;
use crate::sync::Arc;

/// The error of registering an operation. It returns the operation. None of the operation's callbacks
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
/// assert!(Arc::ptr_eq(&refused.into_payload(), &fetch));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type WatchError<O> = Refused<WatchReason, Arc<O>>;

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

display! { WatchReason {
    NoKeys => "an operation waits under at least one key",
    Full => "as many timers as allowed are pending",
    Stopped => "the purgatory or its engine has stopped",
} }
