//! The end of a value that goes with a timer: it uses the value, unless that was revoked.
//!
//! *Owner*: the part that has the payload: the engine, a dispatcher, the caller of a stop. The
//! other end is in `waiter`.
//!
//! *Invariants*
//! - The use is over after the value was consumed: by the closure that it was passed to, by
//!   unwinding, or by its drop.
//! - A guard that goes says so, whatever way it goes.
//!
//! *Tested by*: `tests/suite/wait.rs`, `tests/races/wait/races.rs`.

use crate::dispatch::{Runs, Task};
use crate::protocol::revocable::Revocable;

use super::waiting::Shared;
use super::{Sleeper, working_on};

/// A value that is used once, unless its [`Waiter`](super::Waiter) revokes it before that. It is
/// one word.
///
/// If it is dropped, the value is dropped, and the waiter learns that it will never be used.
///
/// [`pair`](super::pair) makes one, and has an example.
#[must_use = "a dropped guard drops its value"]
pub struct Guarded<V: Send + 'static>(Option<Shared<V>>);

/// The use of a value that was taken out by [`Guarded::begin`]. Its drop tells the waiter that the
/// use is over, so drop it after everything else.
#[must_use = "the use is over when this is dropped"]
pub struct Running<V: Send + 'static>(Shared<V>);

/// Tells that the use is over when it is dropped.
struct EndOfUse<'a, V>(&'a Revocable<V, Sleeper>);

// === impl Guarded ===

impl<V: Send + 'static> Guarded<V> {
    pub(super) fn new(shared: Shared<V>) -> Guarded<V> {
        Guarded(Some(shared))
    }

    /// Passes the value to `f`, and tells the waiter when `f` has returned or panicked. `f` should
    /// drop the value. Returns `None` if the value was revoked; `f` is not called then.
    ///
    /// # Panics
    /// Propagates a panic of `f`.
    #[inline]
    pub fn run<R>(mut self, f: impl FnOnce(V) -> R) -> Option<R> {
        let shared = self.0.take()?;
        let value = shared.begin()?;
        let _ending = EndOfUse(&shared);
        Some(working_on(shared.latch(), || f(value)))
    }

    /// Takes the value out, for a use that is a future, or that ends on another thread. `None`: it
    /// was revoked.
    ///
    /// ```
    /// use tickless::wait::{self, Ended};
    ///
    /// let (guarded, mut waiter) = wait::pair(String::from("a report"));
    /// if let Some((report, running)) = guarded.begin() {
    ///     std::thread::spawn(move || {
    ///         drop(report);
    ///         drop(running);
    ///     });
    /// }
    /// assert_eq!(waiter.cancel_wait()?, Ended::Finished);
    /// # Ok::<(), tickless::wait::WaitError>(())
    /// ```
    pub fn begin(mut self) -> Option<(V, Running<V>)> {
        let shared = self.0.take()?;
        let value = shared.begin()?;
        Some((value, Running(shared)))
    }
}

impl<V: Send + 'static> Drop for Guarded<V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            // Usually it was revoked, and the engine followed.
            if let Some(value) = shared.discard() {
                let _ending = EndOfUse(&shared);
                working_on(shared.latch(), || drop(value));
            }
        }
    }
}

impl From<Guarded<Task>> for Task {
    fn from(guarded: Guarded<Task>) -> Task {
        Task::of(guarded)
    }
}

impl Runs for Guarded<Task> {
    #[inline]
    fn run(self) {
        Guarded::run(self, Task::run);
    }
}

unwind_safe! { impl[V: Send + 'static] Guarded[V] }

debug! { impl[V: Send + 'static] Guarded[V] {} }

// === impl Running, EndOfUse ===

impl<V: Send + 'static> Drop for Running<V> {
    fn drop(&mut self) {
        drop(EndOfUse(&self.0));
    }
}

debug! { impl[V: Send + 'static] Running[V] {} }

impl<V> Drop for EndOfUse<'_, V> {
    fn drop(&mut self) {
        self.0.end(Sleeper::ring);
    }
}
