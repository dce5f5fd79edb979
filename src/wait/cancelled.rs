//! The future that waits for the end of a task.
//!
//! *Owner*: the task of an executor that polls it.
//!
//! *Tested by*: `tests/races/wait/futures.rs`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::waiting::may_wait;
use super::{Ends, Sleeper, WaitError};

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// It never ran, and never will. What it captured is dropped.
    Cancelled,
    /// It has run, and has returned or panicked. What it captured is dropped, except [a value that
    /// it panicked with](super#panics).
    Finished,
}

/// Waits until a task has ended, and tells how: the future of
/// [`Waitable::cancelled`](crate::Waitable::cancelled) and of the methods of that name elsewhere.
///
/// Cancel safe: the task was cancelled when this was made, if it had not begun. If this is dropped,
/// only the wait ends.
#[must_use = "a future that is not awaited does not wait"]
pub struct Cancelled<'a, E = Ended> {
    thing: &'a dyn Ends<E>,
    /// Where the waker of the last poll is.
    place: Option<u32>,
}

// === impl Cancelled ===

impl<'a, E> Cancelled<'a, E> {
    #[doc(hidden)]
    pub fn new(thing: &'a dyn Ends<E>) -> Cancelled<'a, E> {
        Cancelled { thing, place: None }
    }

    /// Takes the waker of the last poll back.
    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            drop(self.thing.latch().leave(place));
        }
    }
}

impl<E> Future for Cancelled<'_, E> {
    type Output = Result<E, WaitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.leave();
        if let Some(ended) = self.thing.ended() {
            return Poll::Ready(Ok(ended));
        }
        may_wait(self.thing)?;
        let Some(place) = self.thing.latch().watch(Sleeper::Task(cx.waker().clone())) else {
            return Poll::Ready(Ok(self.thing.ended().expect("the latch is open")));
        };
        self.place = Some(place);
        Poll::Pending
    }
}

impl<E> Drop for Cancelled<'_, E> {
    fn drop(&mut self) {
        self.leave();
    }
}

unwind_safe! { impl[E] Cancelled['_, E] }

debug! { impl[E] Cancelled['_, E] { is_open = |this| this.thing.latch().is_open() } }
