//! A handle that cancels its timer when it is dropped.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::dispatch::Task;

use super::Handle;

/// A [`Handle`] that cancels its timer when it is dropped.
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
pub struct CancelOnDrop<T: Send + 'static = Task> {
    handle: Option<Handle<T>>,
}

// === impl CancelOnDrop ===

impl<T: Send + 'static> CancelOnDrop<T> {
    pub(super) fn new(handle: Handle<T>) -> CancelOnDrop<T> {
        CancelOnDrop { handle: Some(handle) }
    }

    /// Returns the handle. The timer then fires, unless the handle cancels it.
    pub fn into_handle(mut self) -> Handle<T> {
        self.handle.take().expect("a guard has its handle until it is dropped")
    }
}

impl<T: Send + 'static> Deref for CancelOnDrop<T> {
    type Target = Handle<T>;

    fn deref(&self) -> &Handle<T> {
        self.handle.as_ref().expect("a guard has its handle until it is dropped")
    }
}

impl<T: Send + 'static> DerefMut for CancelOnDrop<T> {
    fn deref_mut(&mut self) -> &mut Handle<T> {
        self.handle.as_mut().expect("a guard has its handle until it is dropped")
    }
}

impl<T: Send + 'static> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.cancel();
        }
    }
}

impl<T: Send + 'static> fmt::Debug for CancelOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&**self).finish()
    }
}
