//! What is told to those who cancel a timer.

/// What a cancel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cancelled {
    /// The timer does not fire (again).
    Cancelled,
    /// A handler was running for it. It is not tried again, whatever that handler returns.
    Running,
    /// There is no such timer: it is over, or there never was one.
    NotFound,
}
