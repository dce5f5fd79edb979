//! Why an operation was not let in.

use std::fmt;

use crate::sync::Arc;

/// Why an operation was not let in, with the operation. None of its callbacks was called but
/// `try_complete`, and none will be.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tickless::purgatory::{Operation, Purgatory, WatchError};
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
/// match purgatory.try_complete_else_watch(fetch.clone(), [1], Duration::from_secs(30)) {
///     Err(WatchError::Stopped(back)) => assert!(Arc::ptr_eq(&back, &fetch)),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch {
    /// #     topic: &'static str,
    /// # }
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::new()?;
    /// purgatory.stop();
    /// let fetch = Fetch { topic: "orders" }.into();
    /// let refused = purgatory.try_complete_else_watch(fetch, [1], Duration::from_secs(30));
    /// let fetch = refused.unwrap_err().into_operation();
    /// assert_eq!(fetch.topic, "orders", "to be answered in another way");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_operation(self) -> Arc<O> {
        match self {
            WatchError::NoKeys(operation)
            | WatchError::Full(operation)
            | WatchError::Stopped(operation) => operation,
        }
    }

    /// Whether there was no key.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory: Purgatory<u64, Fetch> = Purgatory::new()?;
    /// let refused = purgatory.try_complete_else_watch(Fetch.into(), [], Duration::from_secs(30));
    /// assert!(refused.is_err_and(|error| error.is_no_keys()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_no_keys(&self) -> bool {
        matches!(self, WatchError::NoKeys(_))
    }

    /// Whether the engine was full.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let purgatory = Purgatory::with_engine(&Engine::builder().max_pending(1).build()?);
    /// purgatory.try_complete_else_watch(Fetch.into(), [1], Duration::from_secs(30))?;
    /// let refused = purgatory.try_complete_else_watch(Fetch.into(), [1], Duration::from_secs(30));
    /// assert!(refused.is_err_and(|error| error.is_full()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, WatchError::Full(_))
    }

    /// Whether the purgatory or its engine had stopped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Fetch;
    /// # impl Operation for Fetch {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let engine = Engine::new()?;
    /// let purgatory = Purgatory::with_engine(&engine);
    /// engine.stop()?;
    /// let refused = purgatory.try_complete_else_watch(Fetch.into(), [1], Duration::from_secs(30));
    /// assert!(refused.is_err_and(|error| error.is_stopped()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
