//! What a registration answers.

use std::fmt;

use super::Delayed;

/// What became of an operation that came in.
pub enum Arrival<K, O> {
    /// It completed, by a try of this very call: `on_complete` has returned.
    Completed,
    /// It waits, or was decided by somebody else meanwhile.
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
