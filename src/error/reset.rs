//! Why a timer was not moved.

use std::fmt;

/// The engine stopped while a timer was being moved to an earlier time: the payload is back,
/// and will neither fire nor be returned by `stop`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResetError<T> {
    pub(crate) payload: T,
}

impl<T> ResetError<T> {
    /// What was scheduled.
    pub fn into_payload(self) -> T {
        self.payload
    }
}

impl<T> fmt::Debug for ResetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for ResetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the engine stopped while the timer was being moved")
    }
}

impl<T> std::error::Error for ResetError<T> {}
