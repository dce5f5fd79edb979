//! The caller's handle of what repeats.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crate::engine::{Cancel, CancelOnDrop};
use crate::sync::Arc;
use crate::wait::{Cancelled, Ends, WaitError, deadline_in, wait_for_end};

use super::End;
use super::armed::Repeating;

/// The caller's handle of something that repeats, a [`Periodic`](super::Periodic) or a
/// [`Retrying`](super::Retrying): cancel or inspect it. `K` is what it was started by.
///
/// Clones are cheap and refer to the same thing. One handle serves for all runs, from any thread,
/// including from inside the closures. If every clone is dropped, the thing goes on;
/// [`cancel_on_drop`](Repeated::cancel_on_drop) changes that. A handle may outlive its engine; the
/// thing is over when its last run is, and nobody keeps the payload for the next one.
pub struct Repeated<K> {
    pub(super) armed: Arc<dyn Repeating>,
    kind: PhantomData<fn() -> K>,
}

// === impl Repeated ===

impl<K> Repeated<K> {
    pub(super) fn new(armed: Arc<dyn Repeating>) -> Repeated<K> {
        Repeated { armed, kind: PhantomData }
    }

    /// Cancels the thing. Returns `true` to one caller: no further run or attempt begins, and what
    /// an attempt under way brings does not count. The closures, with what they captured, were
    /// dropped here, on this thread, and that for the outcome of a retry was called before, with
    /// [`Outcome::Ended`](super::Outcome::Ended). If a closure is just being called, all this
    /// happens when that returns instead, there, and this call does not wait for it. `false`: the
    /// thing was over before.
    ///
    /// [`runs`](super::Periodic::runs) includes a run that is under way, and does not change from
    /// here on.
    ///
    /// Two compare-and-swaps; never waits. O(1).
    ///
    /// # Panics
    /// Propagates a panic of what is called or dropped, after everything else is done.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Backoff, Retry, Schedule};
    /// let engine = Engine::new()?;
    /// let hourly = Schedule::fixed_rate(Duration::from_secs(3600)).start(&engine, |_| ())?;
    /// assert!(hourly.cancel());
    /// assert_eq!(engine.len(), 0);
    /// assert!(!hourly.cancel(), "it was cancelled before");
    ///
    /// let attempt = |_| Err::<(), _>("no route");
    /// let retry = Retry::new(Backoff::new(Duration::from_secs(9)));
    /// assert!(retry.run(&engine, attempt, drop)?.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.armed.cancel()
    }

    /// Cancels the thing, and waits until a closure of it that is being called has returned. When
    /// this returns `Ok`, nothing of it runs any more, and the closures with what they captured are
    /// dropped. Returns how it ended, also if another handle ended it. See [`wait`](crate::wait).
    ///
    /// An [`Attempt`](super::Attempt) that was passed on to another thread is not waited for.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::End;
    /// let engine = Engine::new()?;
    /// let periodic = engine.every(Duration::from_millis(1), |_| println!("a run"))?;
    /// assert_eq!(periodic.cancel_wait()?, End::Cancelled);
    /// // Memory that the runs have used may be freed here.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The wait would not end (from inside a closure, for example): see [`WaitError`]. The thing is
    /// cancelled all the same.
    ///
    /// # Panics
    /// As [`cancel`](Repeated::cancel).
    pub fn cancel_wait(&self) -> Result<End, WaitError> {
        self.cancel();
        wait_for_end(self.armed.core(), None)
    }

    /// As [`cancel_wait`](Repeated::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](Repeated::cancel_wait), or a closure is still being called:
    /// [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`cancel`](Repeated::cancel).
    pub fn cancel_wait_within(&self, limit: Duration) -> Result<End, WaitError> {
        self.cancel();
        wait_for_end(self.armed.core(), deadline_in(limit))
    }

    /// Cancels the thing, now. The future waits as [`cancel_wait`](Repeated::cancel_wait) does. If
    /// it is dropped, the thing stays cancelled, and a closure may still be running.
    ///
    /// # Panics
    /// As [`cancel`](Repeated::cancel).
    pub fn cancelled(&self) -> Cancelled<'_, End> {
        self.cancel();
        Cancelled::new(self.armed.core())
    }

    /// Waits until the thing is over, and returns how it ended. It does not cancel. When this
    /// returns `Ok`, nothing of it runs any more, the closure for the outcome of a retry has
    /// returned, and all closures are dropped.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The wait would not end, since the calling task is part of the thing, for example: see
    /// [`WaitError`]. A task of the engine may wait when it may await a [sleep](crate::future), but
    /// never if the engine has payloads of your own: a stop would wait for that task, and then
    /// return the payload for the next run.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Backoff, End, Retry, Run};
    /// let engine = Engine::new()?;
    /// let thrice = |run: &Run| {
    ///     if run.number() == 3 {
    ///         run.cancel();
    ///     }
    /// };
    /// let periodic = engine.every(Duration::from_millis(1), thrice)?;
    /// assert_eq!(pollster::block_on(periodic.ended())?, End::Cancelled);
    ///
    /// let attempt = |number| if number < 3 { Err("not yet") } else { Ok(number) };
    /// let retry = Retry::new(Backoff::new(Duration::from_millis(1)));
    /// let retrying = retry.run(&engine, attempt, |outcome| println!("{outcome:?}"))?;
    /// assert_eq!(pollster::block_on(retrying.ended())?, End::Finished);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn ended(&self) -> Result<End, WaitError> {
        let core = self.armed.core();
        let mut ended = Cancelled::new(core);
        poll_fn(|cx| {
            if core.ended().is_none() && self.armed.must_not_wait() {
                return Poll::Ready(Err(WaitError::Circular));
            }
            Pin::new(&mut ended).poll(cx)
        })
        .await
    }

    /// Whether it is not over yet.
    pub fn is_running(&self) -> bool {
        self.end().is_none()
    }

    /// Why it is over; `None` if it is not. [`End::Finished`]: the schedule has no further run, or
    /// the retry succeeded or gave up.
    pub fn end(&self) -> Option<End> {
        self.armed.core().word.end()
    }

    /// Turns the handle into one that cancels the thing when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<Repeated<K>> {
        CancelOnDrop::new(self)
    }
}

impl<K> Cancel for Repeated<K> {
    fn cancel(self) {
        Repeated::cancel(&self);
    }
}

// Not derived: that would require the same of `K`.
impl<K> Clone for Repeated<K> {
    fn clone(&self) -> Repeated<K> {
        Repeated::new(self.armed.clone())
    }
}

unwind_safe! { impl[K] Repeated[K] }

debug! { impl[K] Repeated[K] {
    end = |this| this.end(),
    due_ns = |this| this.armed.core().due_ns(),
    tally = |this| this.armed.core().tally(),
} }
