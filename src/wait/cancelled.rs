//! The future that waits for the end of a task.
//!
//! *Owner*: the task of an executor that polls it.
//!
//! *Tested by*: `tests/wait_async.rs`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::dispatch::{Task, Waiting};

use super::waiting::may_wait;
use super::{Bell, Ended, WaitError, Waiter};

/// Waits until a task has ended: the future of [`Waiter::cancelled`] and
/// [`Waitable::cancelled`](crate::Waitable::cancelled).
///
/// Cancel safe: the task was cancelled when this was made, if it had not begun. If this is dropped,
/// only the wait ends.
#[must_use = "a future that is not awaited does not wait"]
pub struct Cancelled<'a, V: Send + 'static = Task> {
    waiter: &'a mut Waiter<V>,
    /// Where the waker of the last poll is.
    place: Option<u32>,
    /// If the last poll was inside a task: that this one waits.
    waiting: Option<Waiting>,
}

// === impl Cancelled ===

impl<'a, V: Send + 'static> Cancelled<'a, V> {
    pub(super) fn new(waiter: &'a mut Waiter<V>) -> Cancelled<'a, V> {
        Cancelled { waiter, place: None, waiting: None }
    }

    /// Takes the waker of the last poll back.
    fn leave(&mut self) {
        self.waiting = None;
        let place = self.place.take();
        if let (Some(place), Ok(latch)) = (place, self.waiter.latch()) {
            drop(latch.leave(place));
        }
    }

    /// Leaves the waker. `None`: the task has ended.
    fn watch(&mut self, cx: &Context<'_>) -> Result<Option<u32>, WaitError> {
        let latch = self.waiter.latch()?;
        self.waiting = Some(may_wait(latch)?);
        Ok(latch.watch(Bell::Task(cx.waker().clone())))
    }
}

impl<V: Send + 'static> Future for Cancelled<'_, V> {
    type Output = Result<Ended, WaitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.leave();
        if let Some(ended) = self.waiter.ended() {
            return Poll::Ready(Ok(ended));
        }
        match self.watch(cx) {
            Ok(Some(place)) => {
                self.place = Some(place);
                Poll::Pending
            }
            Ok(None) => {
                self.waiting = None;
                Poll::Ready(Ok(self.waiter.ended().expect("the latch is open")))
            }
            Err(error) => {
                self.waiting = None;
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<V: Send + 'static> Drop for Cancelled<'_, V> {
    fn drop(&mut self) {
        self.leave();
    }
}

debug! { impl[V: Send + 'static] Cancelled['_, V] { waiter } }
