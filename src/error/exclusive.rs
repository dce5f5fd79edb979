//! A value that is only moved in and out, so that its container may be shared between threads.
//!
//! *Owner*: the owner of the value. A shared reference is of no use.
//!
//! *Invariants*: no function makes a `&T` from a `&Exclusive<T>`, and no trait that would is
//! implemented.
//!
//! *Orderings*: none; nothing of `T` is read through a shared reference.
//!
//! *Tested by*: `tests/errors.rs`, which shares every error that carries a payload.

/// A payload in an error. Errors have to be `Sync` for `?` to convert them into
/// `Box<dyn Error + Send + Sync>` and the like, and payloads need not be.
pub(crate) struct Exclusive<T>(T);

// SAFETY: a shared reference gives no access to the value, so sharing it between threads shares
// nothing. It moves to another thread only where it is `Send`, for which `T` has to be `Send`.
unsafe impl<T> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Exclusive<T> {
        Exclusive(value)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}
