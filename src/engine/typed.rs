//! The engine for payloads of any one type: how it comes and goes. What one schedules on it is in
//! `scheduling`, what can be seen of it in `view`, turns for its caller are in `driving`.

use std::fmt;

use crate::dispatch::{Handler, contained, step_aside};
use crate::error::{BuildError, StopError};
use crate::sync::{Arc, JoinHandle, Mutex};
use crate::time::Clock;

use super::Builder;
use super::core::Core;
use super::driving::is_inside;
use super::leftover::Leftover;

/// A timer engine whose payload is any `T`, handed to one [`Handler`] in batches.
///
/// This is the engine without closures: where all timers of a service do the same kind of thing,
/// a payload of a few words (a connection's number, say) says which.
///
/// Clones are cheap and share the engine. When the last clone is dropped the engine stops, and
/// what is pending is dropped (a panic in that ends there); [`stop`](TypedEngine::stop) returns it
/// instead.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::{Batch, TypedEngine};
///
/// let (sender, idle) = mpsc::channel();
/// let engine = TypedEngine::new(move |batch: Batch<'_, u64>| {
///     batch.for_each(|connection| drop(sender.send(connection)));
/// })?;
/// let active = engine.schedule(Duration::from_secs(30), 1)?;
/// engine.schedule_detached(Duration::from_millis(2), 2)?;
/// assert_eq!(idle.recv()?, 2);
/// assert!(active.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedEngine<T: Send + 'static> {
    inner: Arc<Inner<T>>,
}

/// Stops the engine when its last user goes.
struct Inner<T: Send + 'static> {
    core: Arc<Core<T>>,
    has_threads: bool,
    threads: Mutex<Vec<JoinHandle<Leftover<T>>>>,
}

// === impl TypedEngine ===

impl<T: Send + 'static> TypedEngine<T> {
    /// An engine with default settings: see [`Builder`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, TypedEngine};
    /// let engine = TypedEngine::new(|batch: Batch<'_, u64>| println!("{} idle", batch.len()))?;
    /// engine.schedule_detached(Duration::from_secs(30), 17)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn new(handler: impl Handler<T> + 'static) -> Result<TypedEngine<T>, BuildError> {
        Builder::new().build_typed(handler)
    }

    pub(super) fn from_parts(
        core: Arc<Core<T>>,
        has_threads: bool,
        threads: Vec<JoinHandle<Leftover<T>>>,
    ) -> TypedEngine<T> {
        let threads = Mutex::new(threads);
        TypedEngine { inner: Arc::new(Inner { core, has_threads, threads }) }
    }

    /// Stops the engine: no timer fires from here on, and every payload that was pending is
    /// returned. Waits for tasks that are running. Scheduling is refused from now on.
    ///
    /// When this returns, the engine has let go of its handler.
    ///
    /// A payload is handed over, given back by `cancel`, `reset` or `schedule`, or returned
    /// here: exactly one of these, however they race. Stopping again returns nothing.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, TypedEngine};
    /// # let engine = TypedEngine::new(|batch: Batch<'_, &str>| drop(batch))?;
    /// engine.schedule_detached(Duration::from_secs(60), "retry")?;
    /// assert_eq!(engine.stop()?, ["retry"]);
    /// assert!(engine.stop()?.is_empty(), "each is returned once");
    /// assert!(engine.schedule_detached(Duration::ZERO, "late").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The call comes from one of the engine's own tasks, for which it would wait.
    pub fn stop(&self) -> Result<Vec<T>, StopError> {
        if is_inside(self.core().id()) {
            return Err(StopError::InsideTask);
        }
        Ok(self.inner.stop())
    }

    /// The engine's number: no other of this process has it.
    pub(crate) fn number(&self) -> u32 {
        self.core().id()
    }

    /// The engine's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.core().clock
    }

    pub(super) fn core(&self) -> &Arc<Core<T>> {
        &self.inner.core
    }

    pub(super) fn has_threads(&self) -> bool {
        self.inner.has_threads
    }
}

impl<T: Send + 'static> Clone for TypedEngine<T> {
    fn clone(&self) -> TypedEngine<T> {
        TypedEngine { inner: self.inner.clone() }
    }
}

impl<T: Send + 'static> fmt::Debug for TypedEngine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedEngine")
            .field("shards", &self.shards())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl<T: Send + 'static> Inner<T> {
    fn stop(&self) -> Vec<T> {
        // Outside the lock: it calls hooks, which may stop the engine as well.
        self.core.stop_all();
        step_aside(|| {
            let (returned, handler) = self.close();
            // Outside the lock as well: a pool may end with it, whose tasks may stop the engine.
            contained(|| drop(handler));
            returned
        })
    }

    /// Waits for the reapers and closes all shards. Answers what was pending there, and the handler
    /// if nobody else was here before.
    fn close(&self) -> (Vec<T>, Option<Box<dyn Handler<T>>>) {
        // A second stopper waits here until the first is done, and finds nothing left.
        let mut threads = self.threads.lock().expect("nothing panics under this lock");
        let mut returned = Vec::new();
        for thread in threads.drain(..) {
            returned.append(&mut thread.join().expect("a reaper does not panic").claim());
        }
        for shard in &self.core.shards {
            returned.append(&mut self.core.close(shard));
        }
        // SAFETY: all shards were closed right here; stoppers exclude each other by the lock, and
        // an abandoned engine has none.
        (returned, unsafe { self.core.handler.take() })
    }
}

impl<T: Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        if is_inside(self.core.id()) {
            // The reapers close their shards by themselves, after the task.
            self.core.abandon();
        } else {
            drop(Leftover::new(self.stop()));
            // SAFETY: this was the last of the engine, and its reapers' threads have been joined.
            unsafe { self.core.dismantle() };
        }
    }
}
