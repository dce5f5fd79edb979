//! The results of a registration: a ticket for an operation that waits, or an error.

use std::fmt;

use tickless::Refused;
use tickless::internal::sync::Arc;
use tickless::internal::{debug, display, unwind_safe};

use super::node::Node;
use super::{Decision, Operation};

/// The result of registering an operation.
///
/// ```
/// use std::time::Duration;
/// use tickless_purgatory::{Arrival, Operation, Purgatory};
///
/// struct Fetch {
///     bytes: usize,
/// }
/// impl Operation for Fetch {
///     fn try_complete(&self) -> bool {
///         self.bytes >= 100
///     }
///     fn on_complete(&self) {
///         println!("{} bytes", self.bytes);
///     }
/// }
///
/// let purgatory = Purgatory::new()?;
/// let minute = Duration::from_secs(60);
/// let fetch = Fetch { bytes: 500 }.into();
/// match purgatory.try_complete_else_watch(fetch, ["orders-0"], minute)? {
///     Arrival::Completed => println!("there was enough"),
///     Arrival::Delayed(ticket) => panic!("{ticket:?} waits for more"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum Arrival<K, O> {
    /// The operation completed, by a try of this same call: `on_complete` has returned.
    Completed,
    /// The operation waits, or another call has ended it meanwhile.
    Delayed(Delayed<K, O>),
}

/// A ticket for an operation that waits: force it, cancel it, or ask how it ended.
///
/// One word in size; clones refer to the same operation. Dropping a ticket changes nothing. A
/// ticket keeps the operation allocated, even after it has ended.
///
/// ```
/// use std::time::Duration;
/// use tickless_purgatory::{Decision, Operation, Purgatory};
///
/// struct Join;
/// impl Operation for Join {
///     fn try_complete(&self) -> bool {
///         false
///     }
///     fn on_complete(&self) {
///         println!("the group has assembled, or must do without the others");
///     }
/// }
///
/// let purgatory = Purgatory::new()?;
/// let arrival = purgatory.try_complete_else_watch(Join.into(), ["g"], Duration::from_secs(9))?;
/// let delayed = arrival.into_delayed().expect("it cannot complete by itself");
/// assert_eq!(delayed.decision(), None);
/// assert!(delayed.force_complete());
/// assert_eq!(delayed.decision(), Some(Decision::Completed));
/// assert!(!delayed.cancel(), "it is over");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Delayed<K, O> {
    node: Arc<Node<K, O>>,
}

/// The error of registering an operation. It returns the operation. None of the operation's
/// callbacks was called except `try_complete`, and none will be.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tickless_purgatory::{Operation, Purgatory, WatchReason};
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
/// use tickless_purgatory::{Operation, Purgatory, WatchReason};
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

// === impl Arrival ===

impl<K, O> Arrival<K, O> {
    /// Whether this call completed the operation.
    pub fn is_completed(&self) -> bool {
        matches!(self, Arrival::Completed)
    }

    /// The ticket, if the operation waits.
    pub fn into_delayed(self) -> Option<Delayed<K, O>> {
        match self {
            Arrival::Completed => None,
            Arrival::Delayed(delayed) => Some(delayed),
        }
    }
}

impl<K, O> Clone for Arrival<K, O> {
    fn clone(&self) -> Arrival<K, O> {
        match self {
            Arrival::Completed => Arrival::Completed,
            Arrival::Delayed(delayed) => Arrival::Delayed(delayed.clone()),
        }
    }
}

impl<K, O> fmt::Debug for Arrival<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrival::Completed => f.write_str("Completed"),
            Arrival::Delayed(delayed) => f.debug_tuple("Delayed").field(delayed).finish(),
        }
    }
}

// === impl Delayed ===

impl<K, O: Operation> Delayed<K, O> {
    pub(super) fn new(node: Arc<Node<K, O>>) -> Delayed<K, O> {
        Delayed { node }
    }

    /// Completes the operation without asking `try_complete`. `true`: this call decided the end,
    /// and `on_complete` has returned; or, if another call was inside `try_complete` at that
    /// moment, `on_complete` follows there. `false`: the end was decided before.
    ///
    /// From inside the operation's own `try_complete`, this has the effect of returning `true`: the
    /// check that tries the operation counts it.
    ///
    /// O(number of its keys).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_purgatory::{Operation, Purgatory};
    /// # struct Join;
    /// # impl Operation for Join {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let (purgatory, minute) = (Purgatory::new()?, Duration::from_secs(60));
    /// let arrival = purgatory.try_complete_else_watch(Join.into(), ["group"], minute)?;
    /// let ticket = arrival.into_delayed().expect("nobody else has come");
    /// assert!(ticket.force_complete(), "the group does without them");
    /// assert_eq!(purgatory.stats().completed, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn force_complete(&self) -> bool {
        self.node.decide(Decision::Completed)
    }

    /// Ends the operation without calling its callbacks. `false`: the end was decided before. (If
    /// another thread is inside `try_complete` at this moment, that call continues, without
    /// effect.)
    ///
    /// O(number of its keys).
    pub fn cancel(&self) -> bool {
        self.node.decide(Decision::Cancelled)
    }

    /// How the operation ended; `None` if it waits. Its callbacks may still be running.
    pub fn decision(&self) -> Option<Decision> {
        self.node.decision()
    }

    /// The operation.
    pub fn operation(&self) -> &Arc<O> {
        &self.node.operation
    }
}

impl<K, O> Clone for Delayed<K, O> {
    fn clone(&self) -> Delayed<K, O> {
        Delayed { node: self.node.clone() }
    }
}

unwind_safe! { impl[K, O] Delayed[K, O] }

debug! { impl[K, O] Delayed[K, O] { node = |this| this.node } }

// === impl WatchReason ===

impl std::error::Error for WatchReason {}

display! { WatchReason {
    NoKeys => "an operation waits under at least one key",
    Full => "as many timers as allowed are pending",
    Stopped => "the purgatory or its engine has stopped",
} }
