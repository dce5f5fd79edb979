//! A handle that cancels when it is dropped.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::Handle;

/// A handle that cancels when it is dropped: a [`Handle`], or that of a periodic task or a retry.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// {
///     let _deadline = engine
///         .schedule(Duration::from_secs(5), || eprintln!("this takes too long"))?
///         .cancel_on_drop();
///     // Do the work here. If it ends in time, in whichever way, nothing is printed.
/// }
/// assert_eq!(engine.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a guard that is dropped at once cancels at once"]
pub struct CancelOnDrop<H: Cancel = Handle> {
    handle: Option<H>,
}

/// A handle that can cancel: of this crate alone.
pub trait Cancel {
    /// Cancels.
    fn cancel(self);
}

// === impl CancelOnDrop ===

impl<H: Cancel> CancelOnDrop<H> {
    pub(crate) fn new(handle: H) -> CancelOnDrop<H> {
        CancelOnDrop { handle: Some(handle) }
    }

    /// Returns the handle, which does not cancel when it is dropped.
    pub fn into_handle(mut self) -> H {
        self.handle.take().expect("a guard has its handle until it is dropped")
    }
}

impl<H: Cancel> Deref for CancelOnDrop<H> {
    type Target = H;

    fn deref(&self) -> &H {
        self.handle.as_ref().expect("a guard has its handle until it is dropped")
    }
}

impl<H: Cancel> DerefMut for CancelOnDrop<H> {
    fn deref_mut(&mut self) -> &mut H {
        self.handle.as_mut().expect("a guard has its handle until it is dropped")
    }
}

impl<H: Cancel> Drop for CancelOnDrop<H> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.cancel();
        }
    }
}

impl<H: Cancel + fmt::Debug> fmt::Debug for CancelOnDrop<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&**self).finish()
    }
}
