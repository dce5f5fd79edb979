//! A cell for a waker, for the checkers.

use std::task::Waker;

use super::Mutex;

/// Holds the waker of one task, which any thread takes and wakes.
#[derive(Debug, Default)]
pub struct AtomicWaker(Mutex<Option<Waker>>);

impl AtomicWaker {
    /// An empty cell.
    pub fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Puts a waker into the cell.
    pub fn register(&self, waker: &Waker) {
        *self.0.lock().expect("nothing panics under this lock") = Some(waker.clone());
    }

    /// Takes the waker out of the cell.
    pub fn take(&self) -> Option<Waker> {
        self.0.lock().expect("nothing panics under this lock").take()
    }

    /// Wakes the task whose waker was in the cell.
    pub fn wake(&self) {
        if let Some(waker) = self.take() {
            waker.wake();
        }
    }
}
