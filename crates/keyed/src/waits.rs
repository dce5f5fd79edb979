//! Waiting for tasks, by key.

use std::borrow::Borrow;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

use tickless::Task;
use tickless::internal::{Panics, deadline_in, wait_for_end};
use tickless::wait::{Cancelled, WaitError};

use super::KeyedTimers;
use super::node::Node;
use super::running::SharedRuns;

// === impl KeyedTimers ===

impl<K, S> KeyedTimers<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
{
    /// Cancels the timer that waits under `key`, and waits until each task of this key that runs
    /// has ended. Returns whether a timer was cancelled.
    ///
    /// A task that another call has taken out ([`cancel`](KeyedTimers::cancel),
    /// [`take`](KeyedTimers::take), [`retain`](KeyedTimers::retain), a replacement) belongs to that
    /// call, which may still be dropping or running it. Apart from those, when this returns `Ok`,
    /// nothing runs any more that was under the key before the call, and what it captured is
    /// dropped; all that it did happens before the return.
    ///
    /// The calling thread sleeps meanwhile. Async code uses [`cancelled`](KeyedTimers::cancelled).
    ///
    /// # Errors
    /// A wait would not end: the caller is such a task, or one of them waits for the caller (see
    /// [`WaitError`]). The timer is cancelled all the same, and the other tasks have ended.
    ///
    /// # Panics
    /// As [`cancel`](KeyedTimers::cancel); a panic of a drop goes on after the wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_keyed::KeyedTimers;
    ///
    /// let timers = KeyedTimers::new()?;
    /// timers.schedule_keyed("session", Duration::from_millis(1), || println!("it is idle"))?;
    /// // The session is closed: what its task uses may be freed after this.
    /// timers.cancel_wait("session")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_wait<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Result<bool, WaitError>
    where
        K: Borrow<Q>,
    {
        self.cancel_and_wait(key, None)
    }

    /// As [`cancel_wait`](KeyedTimers::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](KeyedTimers::cancel_wait), or a task is still running:
    /// `TimedOut`. Then others may be running too.
    ///
    /// # Panics
    /// As [`cancel`](KeyedTimers::cancel).
    pub fn cancel_wait_within<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        limit: Duration,
    ) -> Result<bool, WaitError>
    where
        K: Borrow<Q>,
    {
        self.cancel_and_wait(key, deadline_in(limit))
    }

    /// Cancels the timer that waits under `key`, now. The future waits until each task of this key
    /// that runs has ended, as [`cancel_wait`](KeyedTimers::cancel_wait) does. If it is dropped,
    /// only the wait ends.
    ///
    /// # Errors
    /// Of the future: as [`cancel_wait`](KeyedTimers::cancel_wait).
    ///
    /// # Panics
    /// As [`cancel`](KeyedTimers::cancel).
    pub fn cancelled<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
    ) -> impl Future<Output = Result<bool, WaitError>> + Send + use<K, S, Q>
    where
        K: Borrow<Q>,
    {
        let (cancelled, runs, panics) = self.begin_wait(key);
        panics.go_on();
        async move {
            let mut outcome = Ok(());
            for run in &runs {
                outcome = outcome.and(Cancelled::new(&**run).await);
            }
            let mut panics = Panics::none();
            runs.into_iter().for_each(|run| panics.drop(run));
            panics.go_on();
            outcome.map(|()| cancelled)
        }
    }

    fn cancel_and_wait<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        deadline: Option<Instant>,
    ) -> Result<bool, WaitError>
    where
        K: Borrow<Q>,
    {
        let (cancelled, runs, mut panics) = self.begin_wait(key);
        let mut outcome = Ok(cancelled);
        for run in runs {
            outcome = wait_for_end(&*run, deadline).and(outcome);
            // Perhaps with the key.
            panics.drop(run);
        }
        panics.go_on();
        outcome
    }

    /// Cancels the timer that waits under `key`, and drops its task. Returns whether there was one,
    /// the runs of the key's tasks, and a panic of the drop.
    fn begin_wait<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> (bool, SharedRuns<K, Task>, Panics)
    where
        K: Borrow<Q>,
    {
        let is_it = |node: &Node<K>| *node.key.borrow() == *key;
        let (taken, runs) = self.door.table.take_to_wait(self.door.hash(key), is_it);
        let (cancelled, mut panics) = (taken.is_some(), Panics::none());
        if let Some(waiting) = taken {
            self.door.table.discard(waiting, &mut panics);
        }
        (cancelled, runs, panics)
    }
}
