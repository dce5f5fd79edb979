//! How an engine stops: by a call, with or without a limit of time, or because its last user goes.
//!
//! *Owner*: anyone who has the engine. The protocol is [`Ending`](crate::reaper::Ending)'s; here is
//! who waits for it, and who must not.
//!
//! *Tested by*: `tests/stop.rs`, `tests/stop_backlog.rs`, `tests/stop_cycles.rs`,
//! `tests/stop_within.rs`.

use std::mem;
use std::time::{Duration, Instant};

use crate::dispatch::{Party, drop_each, wait_for, yield_while};
use crate::error::StopError;
use crate::sync::{Arc, AtomicBool, JoinHandle, Mutex, Ordering, PoisonError, thread};

use super::Engine;
use super::core::Core;
use super::driving::is_inside;
use super::thread_cache::is_inherited;

/// Stops the engine when its last user goes.
pub(super) struct Inner<T: Send + 'static> {
    core: Arc<Core<T>>,
    has_threads: bool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Somebody gave up waiting for the engine's tasks.
    gave_up: AtomicBool,
}

/// What a stop with a limit of time brought back, and what it did not wait for.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// engine.schedule_detached(Duration::from_secs(60), || println!("due"))?;
/// let stopped = engine.stop_within(Duration::from_secs(5))?;
/// assert_eq!((stopped.returned.len(), stopped.running), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Stopped<T> {
    /// What was pending and will not run.
    pub returned: Vec<T>,
    /// How many shards were still running a task when the time was over. Zero: the engine has
    /// stopped altogether, and has dropped its handler.
    pub running: usize,
}

// === impl Engine: stopping ===

impl<T: Send + 'static> Engine<T> {
    /// Stops the engine, and returns every payload that was pending.
    ///
    /// From the moment of the call scheduling is refused, and no payload is taken out of a batch
    /// any more: those that were due and not yet taken come back with the rest. Waits for the tasks
    /// that are running. When this returns, the engine has dropped its handler.
    ///
    /// A payload is handed over, dropped or returned by its handle, given back by `schedule`, or
    /// returned here: exactly one of these, however they race. Stopping again returns nothing.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine};
    /// # let engine = Engine::typed(|batch: Batch<'_, &str>| drop(batch))?;
    /// engine.schedule_detached(Duration::from_secs(60), "retry")?;
    /// assert_eq!(engine.stop()?, ["retry"]);
    /// assert!(engine.stop()?.is_empty(), "each is returned once");
    /// assert!(engine.schedule_detached(Duration::ZERO, "late").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The call comes from one of the engine's own tasks, or from one that a task of this engine
    /// waits for; the engine goes on as before. Or it comes from a child process.
    pub fn stop(&self) -> Result<Vec<T>, StopError> {
        self.inner().stop(None).map(|stopped| stopped.returned)
    }

    /// As [`stop`](Engine::stop), but waits for running tasks no longer than `limit`, and says
    /// how many shards were still running one then.
    ///
    /// The engine is stopped in either case: nothing more begins. What a task that is still running
    /// kept its batch from is returned by the next call of this or of `stop`; without one it is
    /// dropped after that task. The handler goes after the last task. Once the time was over,
    /// dropping the engine does not wait either.
    ///
    /// Of an engine that its caller drives, a handler that takes its time to be dropped is waited
    /// for on the calling thread, limit or not.
    ///
    /// ```
    /// # use std::sync::mpsc;
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine};
    /// let (release, released) = mpsc::channel::<()>();
    /// let released = std::sync::Mutex::new(released);
    /// let (begin, begun) = mpsc::channel();
    /// let engine = Engine::typed(move |batch: Batch<'_, u32>| {
    ///     for payload in batch {
    ///         let _ = begin.send(payload);
    ///         let _ = released.lock().map(|released| released.recv());
    ///     }
    /// })?;
    /// engine.schedule_detached(Duration::ZERO, 1)?;
    /// assert_eq!(begun.recv()?, 1);
    /// let stopped = engine.stop_within(Duration::from_millis(1))?;
    /// assert_eq!(stopped.running, 1, "it waits for the release");
    /// drop(release);
    /// assert!(engine.stop()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`stop`](Engine::stop).
    pub fn stop_within(&self, limit: Duration) -> Result<Stopped<T>, StopError> {
        // A limit that no clock can show is none.
        self.inner().stop(Instant::now().checked_add(limit))
    }

    /// Whether somebody has stopped the engine: it takes no timers and runs none.
    pub fn is_stopped(&self) -> bool {
        self.core().is_stopping()
    }
}

// === impl Inner ===

impl<T: Send + 'static> Inner<T> {
    pub(super) fn new(
        core: Arc<Core<T>>,
        has_threads: bool,
        threads: Vec<JoinHandle<()>>,
    ) -> Inner<T> {
        let gave_up = AtomicBool::new(false);
        Inner { core, has_threads, threads: Mutex::new(threads), gave_up }
    }

    pub(super) fn core(&self) -> &Arc<Core<T>> {
        &self.core
    }

    pub(super) fn has_threads(&self) -> bool {
        self.has_threads
    }

    fn stop(&self, deadline: Option<Instant>) -> Result<Stopped<T>, StopError> {
        if is_inherited(self.core.id()) {
            return Err(StopError::Forked);
        }
        if is_inside(self.core.id()) {
            return Err(StopError::InsideTask);
        }
        let _waiting = wait_for(Party::Engine(self.core.id())).ok_or(StopError::Circular)?;
        let mut returned = self.core.stop();
        let is_over = self.wait(deadline);
        returned.append(&mut self.core.ending.claim());
        let running = if is_over { 0 } else { self.core.ending.roles_left() };
        Ok(Stopped { returned, running })
    }

    /// Waits for the tasks that are running, and for the handler to be dropped.
    fn wait(&self, deadline: Option<Instant>) -> bool {
        yield_while(|| {
            let is_over = self.core.ending.wait(deadline);
            if !is_over {
                // ORDER: Relaxed - whoever drops the engine has it from all who used it.
                self.gave_up.store(true, Ordering::Relaxed);
            } else if deadline.is_none() {
                self.join();
            }
            is_over
        })
    }

    /// Waits for the threads, which are about to return; not for the one that this is, where what
    /// tasks have left in its thread-locals calls this as it ends. One of several stoppers waits:
    /// another may be what a thread still does.
    fn join(&self) {
        let threads = mem::take(&mut *self.threads.lock().expect("nothing panics under this lock"));
        let here = thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != here) {
            thread.join().expect("a reaper does not panic");
        }
    }
}

impl<T: Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        if is_inherited(self.core.id()) {
            // Nobody stops what another process runs. Its threads are not here to be joined, or
            // even to be let go of; its locks may be held, and its lists be half-way somewhere.
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(threads));
            return mem::forget(self.core.clone());
        }
        // ORDER: Relaxed - as in `wait`.
        let gave_up = self.gave_up.load(Ordering::Relaxed);
        let party = Party::Engine(self.core.id());
        let waiting = if gave_up { None } else { wait_for(party) };
        let mut pending = self.core.stop();
        if waiting.is_some() {
            self.wait(None);
        }
        // Where nobody waits, those who are still at it drop what they leave.
        pending.append(&mut self.core.ending.abandon());
        drop_each(pending);
        // SAFETY: this was the last of the engine, and it is stopped.
        unsafe { self.core.dismantle() };
    }
}
