//! A ticket for an operation that waits.

use std::fmt;

use crate::sync::Arc;

use super::node::Node;
use super::{Decision, Operation};

/// A ticket for an operation that waits: force it, cancel it, ask how it ended.
///
/// One word in size; clones lead to the same operation. Dropping it changes nothing. While it is
/// kept it keeps the operation allocated, also when that has ended.
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

    /// Completes the operation whatever `try_complete` would say. `true`: this call decided it,
    /// and `on_complete` has returned; or, if another call was inside `try_complete` right then,
    /// `on_complete` follows there. `false`: it was decided before.
    ///
    /// From inside the operation's own `try_complete` it does the same as answering `true`: the
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

    /// Ends the operation without telling it. `false`: it was decided before. (A `try_complete`
    /// that another thread is inside of right now goes on, for nothing.)
    ///
    /// O(number of its keys).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Decision, Operation, Purgatory};
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
    /// assert!(ticket.cancel());
    /// assert_eq!(ticket.decision(), Some(Decision::Cancelled));
    /// assert_eq!(purgatory.check_and_complete("group"), 0, "it is gone from there");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.node.decide(Decision::Cancelled)
    }

    /// How the operation ended; `None`: it waits. Its callbacks may still be running.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Decision, Operation, Purgatory};
    /// # use tickless::{Engine, ManualClock};
    /// # struct Join;
    /// # impl Operation for Join {
    /// #     fn try_complete(&self) -> bool {
    /// #         false
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let (purgatory, minute) = (Purgatory::with_engine(&engine), Duration::from_secs(60));
    /// let arrival = purgatory.try_complete_else_watch(Join.into(), ["group"], minute)?;
    /// let ticket = arrival.into_delayed().expect("nobody else has come");
    /// assert_eq!(ticket.decision(), None);
    /// engine.advance(minute)?;
    /// assert_eq!(ticket.decision(), Some(Decision::Expired));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decision(&self) -> Option<Decision> {
        self.node.decision()
    }

    /// The operation.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Join {
    /// #     members: AtomicU32,
    /// # }
    /// # impl Operation for Join {
    /// #     fn try_complete(&self) -> bool {
    /// #         self.members.load(Ordering::Acquire) >= 3
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let (purgatory, minute) = (Purgatory::new()?, Duration::from_secs(60));
    /// let join = Join { members: AtomicU32::new(2) }.into();
    /// let arrival = purgatory.try_complete_else_watch(join, ["group"], minute)?;
    /// let ticket = arrival.into_delayed().expect("one is missing");
    /// ticket.operation().members.fetch_add(1, Ordering::Release);
    /// assert_eq!(purgatory.check_and_complete("group"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
