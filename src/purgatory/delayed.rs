//! A ticket for an operation that waits.

use std::fmt;

use crate::sync::Arc;

use super::node::Node;
use super::{Decision, Operation};

/// A ticket for an operation that waits: force it, cancel it, or ask how it ended.
///
/// One word in size; clones refer to the same operation. Dropping a ticket changes nothing. A
/// ticket keeps the operation allocated, even after it has ended.
///
/// ```
/// use std::time::Duration;
/// use tickless::purgatory::{Decision, Operation, Purgatory};
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

// === impl Delayed ===

impl<K, O> Delayed<K, O>
where
    K: Send + 'static,
    O: Operation,
{
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
    /// # use tickless::purgatory::{Operation, Purgatory};
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
        self.node.operation()
    }
}

impl<K, O> Clone for Delayed<K, O> {
    fn clone(&self) -> Delayed<K, O> {
        Delayed { node: self.node.clone() }
    }
}

impl<K, O> fmt::Debug for Delayed<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delayed").field("node", &self.node).finish()
    }
}
