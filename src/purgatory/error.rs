//! Why an operation was not let in.

use std::fmt;

use crate::sync::Arc;

/// Why an operation was not let in, with the operation. None of its callbacks was called but
/// `try_complete`, and none will be.
#[non_exhaustive]
pub enum WatchError<O> {
    /// It came without any key: nothing could ever lead to it. (It was not tried either.)
    NoKeys(Arc<O>),
    /// As many timers are pending on the engine as its `max_pending` allows.
    Full(Arc<O>),
    /// The purgatory or its engine has stopped.
    Stopped(Arc<O>),
}

// === impl WatchError ===

impl<O> WatchError<O> {
    /// The operation.
    pub fn into_operation(self) -> Arc<O> {
        match self {
            WatchError::NoKeys(operation)
            | WatchError::Full(operation)
            | WatchError::Stopped(operation) => operation,
        }
    }

    /// Whether there was no key.
    pub fn is_no_keys(&self) -> bool {
        matches!(self, WatchError::NoKeys(_))
    }

    /// Whether the engine was full.
    pub fn is_full(&self) -> bool {
        matches!(self, WatchError::Full(_))
    }

    /// Whether the purgatory or its engine had stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self, WatchError::Stopped(_))
    }
}

impl<O> fmt::Debug for WatchError<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WatchError::NoKeys(_) => "NoKeys(..)",
            WatchError::Full(_) => "Full(..)",
            WatchError::Stopped(_) => "Stopped(..)",
        })
    }
}

impl<O> fmt::Display for WatchError<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WatchError::NoKeys(_) => "an operation waits under at least one key",
            WatchError::Full(_) => "as many timers as allowed are pending",
            WatchError::Stopped(_) => "the purgatory or its engine has stopped",
        })
    }
}

impl<O> std::error::Error for WatchError<O> {}
