//! A scope whose tasks can be waited for.
//!
//! *Owner*: whichever thread has it.
//!
//! *Tested by*: `tests/races/wait/scopes.rs`.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::dispatch::{IntoPayload, Panics, Task, contained};
use crate::engine::{Engine, EngineRef, Waitable, When};
use crate::error::{ResetError, ScheduleError};
use crate::wait::{Guarded, Stage, WaitError, deadline_in};

use super::slots::Slots;
use super::{CallersEnd, Key};

/// The timers of one connection, request or session, whose tasks can be waited for: a
/// [`Scope`](super::Scope) of [`Waitable`]s. Created by [`Engine::waitable_scope`].
///
/// When [`cancel_wait`](WaitableScope::cancel_wait) returns `Ok`, none of the tasks runs any more,
/// and what they captured is dropped. So the connection's memory may be freed then, whatever the
/// tasks do with it.
///
/// Until its task begins, a timer can be cancelled, also after it has fired: see
/// [`wait`](crate::wait). A timer is *over* when its task has ended or was cancelled. The key of a
/// timer that is over finds nothing, as in a `Scope`. A task that runs stays in the scope until it
/// has ended.
///
/// Dropping a scope cancels its timers and does not wait: a task that runs goes on. A panic of
/// dropping a task is swallowed.
///
/// *Cost.* Each timer takes one allocation more than in a `Scope`.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// let memory = Box::into_raw(Box::new(AtomicU64::new(0)));
/// // SAFETY: the memory is freed after `cancel_wait`, and then no task runs.
/// let requests: &'static AtomicU64 = unsafe { &*memory };
/// let mut connection = engine.waitable_scope();
/// for ms in [1, 500, 5_000] {
///     connection.schedule(Duration::from_millis(ms), || {
///         requests.fetch_add(1, Ordering::Relaxed);
///     })?;
/// }
/// connection.cancel_wait()?;
/// // SAFETY: it came from a box, and nothing of the tasks is left.
/// drop(unsafe { Box::from_raw(memory) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a scope cancels its timers"]
pub struct WaitableScope<V: Send + 'static = Task, T: Send + 'static = Task> {
    engine: EngineRef<T>,
    slots: Slots<Waitable<V, T>>,
}

// === impl Engine ===

impl Engine {
    /// Creates a scope without timers whose tasks can be waited for. Allocates nothing.
    pub fn waitable_scope(&self) -> WaitableScope {
        WaitableScope::with_engine(self)
    }
}

impl<V: Send + 'static> Engine<Guarded<V>> {
    /// Creates a scope without timers, for values whose use can be waited for. Allocates nothing.
    pub fn waitable_scope(&self) -> WaitableScope<V, Guarded<V>> {
        WaitableScope::with_engine(self)
    }
}

// === impl WaitableScope ===

impl WaitableScope {
    /// Schedules `task` for `when`, as [`Engine::schedule_waitable`] does. Amortised O(1).
    ///
    /// # Errors
    /// The engine is full, has stopped or is gone. The task comes back in the error.
    pub fn schedule(
        &mut self,
        when: impl Into<When>,
        task: impl IntoPayload<Task>,
    ) -> Result<Key, ScheduleError<Task>> {
        self.insert(when.into(), task.into_payload())
    }
}

impl<V: Send + 'static> WaitableScope<V, Guarded<V>> {
    /// Schedules `value` for `when`, as [`Engine::schedule_waitable`] does. Amortised O(1).
    ///
    /// # Errors
    /// The engine is full, has stopped or is gone. The value comes back in the error.
    pub fn schedule(&mut self, when: impl Into<When>, value: V) -> Result<Key, ScheduleError<V>> {
        self.insert(when.into(), value)
    }
}

impl<V: Send + 'static, T: Send + 'static> WaitableScope<V, T> {
    /// As [`Engine::waitable_scope`], on an engine whose payloads may be others too.
    #[doc(hidden)]
    pub fn with_engine(engine: &Engine<T>) -> WaitableScope<V, T> {
        WaitableScope { engine: EngineRef::new(engine), slots: Slots::new() }
    }

    /// The key that the next timer gets: it can be kept before that timer can fire.
    #[doc(hidden)]
    pub fn next_key(&mut self) -> Key {
        self.slots.next_key()
    }

    /// As `schedule`, on an engine whose payloads may be others too.
    #[doc(hidden)]
    pub fn insert(&mut self, when: When, value: V) -> Result<Key, ScheduleError<V>>
    where
        T: From<Guarded<V>>,
    {
        Ok(self.slots.insert(self.engine.schedule_waitable(when, value)?))
    }

    /// Cancels a timer. Returns `true` if its task will never run: it was dropped here. Returns
    /// `false` if it runs, or is over. Never waits. O(1).
    ///
    /// # Panics
    /// Dropping the task panics. It is cancelled all the same.
    pub fn cancel(&mut self, key: Key) -> bool {
        self.take(key).is_some()
    }

    /// Cancels a timer and returns its task. Returns `None` if that runs, or is over. O(1).
    #[must_use = "`cancel` drops the task, and costs the same"]
    pub fn take(&mut self, key: Key) -> Option<V> {
        let value = self.slots.get_mut(key)?.take()?;
        self.slots.remove(key);
        Some(value)
    }

    /// Moves a timer: it is then due at `when`, and at no other time. The key stays the same. Costs
    /// as much as [`Handle::reset`](crate::Handle::reset), which also says what happens to many
    /// timers that are moved from the present.
    ///
    /// # Errors
    /// As [`Scope::reset`](super::Scope::reset).
    pub fn reset(&mut self, key: Key, when: impl Into<When>) -> Result<(), ResetError> {
        self.slots.get_mut(key).map_or(Err(ResetError::TooLate), |timer| timer.reset(when))
    }

    /// How far a timer and its task have come, which may change right after. `None`: it is over.
    /// O(1).
    pub fn stage(&self, key: Key) -> Option<Stage> {
        self.living(key).map(Waitable::stage)
    }

    /// Returns when a timer is due: its deadline rounded up to the tick. Returns `None` if it is
    /// over, was cancelled, or never fires. O(1).
    pub fn deadline(&self, key: Key) -> Option<Instant> {
        self.living(key)?.deadline()
    }

    /// Takes a timer out of the scope. Returns `None` if it is over. O(1).
    pub fn remove(&mut self, key: Key) -> Option<Waitable<V, T>> {
        self.living(key)?;
        self.slots.remove(key)
    }

    /// Returns how many timers are not over: they are pending, their tasks wait to be run, or run.
    /// Tasks may end while this counts, so it is an estimate unless time stands still. O(timers in
    /// the scope).
    pub fn len(&self) -> usize {
        self.slots.iter().filter(|timer| !timer.is_over()).count()
    }

    /// Whether all timers are over. O(timers in the scope).
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(CallersEnd::is_over)
    }

    /// Cancels all timers, and returns how many tasks will never run because of this. A task that
    /// runs stays in the scope. Never waits. The scope can be used again.
    ///
    /// # Panics
    /// Dropping a task panics. All timers are cancelled and all tasks are dropped first; the first
    /// panic goes on then.
    pub fn cancel_all(&mut self) -> usize {
        let (cancelled, panics) = self.call_off();
        panics.go_on();
        cancelled
    }

    /// Cancels all timers, and returns the tasks that will never run because of this, in no
    /// particular order. A task that runs stays in the scope. Never waits. The scope can be used
    /// again.
    #[must_use = "`cancel_all` drops the tasks"]
    pub fn take_all(&mut self) -> Vec<V> {
        let taken = self.slots.iter_mut().filter_map(Waitable::take).collect();
        self.slots.let_go();
        taken
    }

    /// Cancels all timers, and waits until the tasks that run have ended. When this returns `Ok`,
    /// no task of the scope runs any more, and what they captured is dropped. All that they did
    /// happens before the return. The scope can be used again.
    ///
    /// The calling thread sleeps meanwhile. Async code uses
    /// [`cancelled`](WaitableScope::cancelled).
    ///
    /// # Errors
    /// A wait would not end: the caller is one of the tasks, or one of them waits for the caller
    /// (see [`WaitError`]). All timers are cancelled, and all other tasks have ended; those for
    /// which it could not wait are still in the scope. After [`WaitError::InsideTask`], only the
    /// caller's own task still runs.
    ///
    /// # Panics
    /// As [`cancel_all`](WaitableScope::cancel_all), after the wait.
    pub fn cancel_wait(&mut self) -> Result<(), WaitError> {
        self.cancel_wait_until(None)
    }

    /// As [`cancel_wait`](WaitableScope::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](WaitableScope::cancel_wait), or a task is still running:
    /// [`WaitError::TimedOut`]. Then others may be running too.
    ///
    /// # Panics
    /// As [`cancel_all`](WaitableScope::cancel_all), after the wait.
    pub fn cancel_wait_within(&mut self, limit: Duration) -> Result<(), WaitError> {
        self.cancel_wait_until(deadline_in(limit))
    }

    /// Cancels all timers, now. The future waits until the tasks that run have ended, as
    /// [`cancel_wait`](WaitableScope::cancel_wait) does. If it is dropped, only the wait ends, and
    /// this can be called again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let engine = Engine::new()?;
    /// let mut connection = engine.waitable_scope();
    /// connection.schedule(Duration::from_secs(5), || println!("no answer"))?;
    /// connection.cancelled().await?;
    /// assert!(connection.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Of the future: as [`cancel_wait`](WaitableScope::cancel_wait).
    ///
    /// # Panics
    /// As [`cancel_all`](WaitableScope::cancel_all).
    pub fn cancelled(&mut self) -> impl Future<Output = Result<(), WaitError>> + Send + '_ {
        self.cancel_all();
        async {
            let mut outcome = Ok(());
            for timer in self.slots.iter_mut() {
                outcome = both(outcome, timer.cancelled().await.map(drop));
            }
            self.slots.let_go();
            outcome
        }
    }

    /// Lets all timers fire.
    pub fn detach(mut self) {
        let mut panics = Panics::none();
        self.slots.drain().for_each(|timer| panics.drop(timer));
        panics.go_on();
    }

    /// Cancels all timers. Returns how many there were, and the panics of the drops of their tasks.
    fn call_off(&mut self) -> (usize, Panics) {
        let (mut cancelled, mut panics) = (0, Panics::none());
        for timer in self.slots.iter_mut() {
            let Some(value) = timer.take() else { continue };
            cancelled += 1;
            panics.drop(value);
        }
        self.slots.let_go();
        (cancelled, panics)
    }

    fn cancel_wait_until(&mut self, deadline: Option<Instant>) -> Result<(), WaitError> {
        let (_, panics) = self.call_off();
        let mut outcome = Ok(());
        for timer in self.slots.iter_mut() {
            outcome = both(outcome, timer.cancel_wait_until(deadline).map(drop));
        }
        self.slots.let_go();
        panics.go_on();
        outcome
    }

    fn living(&self, key: Key) -> Option<&Waitable<V, T>> {
        self.slots.get(key).filter(|timer| !timer.is_over())
    }
}

/// The outcome of two waits. That the caller is one of the tasks tells least, so it is the outcome
/// only if nothing else still runs.
fn both(one: Result<(), WaitError>, other: Result<(), WaitError>) -> Result<(), WaitError> {
    match one {
        Ok(()) => other,
        Err(WaitError::InsideTask) => other.and(one),
        Err(_) => one,
    }
}

impl<V: Send + 'static, T: Send + 'static> Drop for WaitableScope<V, T> {
    fn drop(&mut self) {
        for mut timer in self.slots.drain() {
            contained(|| _ = timer.cancel());
        }
    }
}

debug! { impl[V: Send + 'static, T: Send + 'static] WaitableScope[V, T] {
    len = |this| this.len(),
} }
