//! The result of a registration.

use std::fmt;

use super::Delayed;

/// The result of registering an operation.
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
    /// The operation completed, by a try of this same call: `on_complete` has returned.
    Completed,
    /// The operation waits, or another call has ended it meanwhile.
    Delayed(Delayed<K, O>),
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
