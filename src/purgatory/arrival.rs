//! What a registration answers.

use std::fmt;

use super::Delayed;

/// What became of an operation that came in.
///
/// ```
/// use std::time::Duration;
/// use tickless::purgatory::{Arrival, Operation, Purgatory};
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
    /// It completed, by a try of this very call: `on_complete` has returned.
    Completed,
    /// It waits, or was decided by somebody else meanwhile.
    Delayed(Delayed<K, O>),
}

// === impl Arrival ===

impl<K, O> Arrival<K, O> {
    /// Whether this call completed the operation.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::purgatory::{Operation, Purgatory};
    /// # struct Join(bool);
    /// # impl Operation for Join {
    /// #     fn try_complete(&self) -> bool {
    /// #         self.0
    /// #     }
    /// #     fn on_complete(&self) {}
    /// # }
    /// let (purgatory, minute) = (Purgatory::new()?, Duration::from_secs(60));
    /// let (complete, waiting) = (Join(true).into(), Join(false).into());
    /// assert!(purgatory.try_complete_else_watch(complete, ["group"], minute)?.is_completed());
    /// assert!(!purgatory.try_complete_else_watch(waiting, ["group"], minute)?.is_completed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_completed(&self) -> bool {
        matches!(self, Arrival::Completed)
    }

    /// The ticket, if the operation waits.
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
    /// // The one who asked hangs up.
    /// if let Some(ticket) = arrival.into_delayed() {
    ///     assert!(ticket.cancel());
    /// }
    /// assert!(purgatory.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
