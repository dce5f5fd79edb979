//! How an engine stops: by a call, with or without a time limit, or because its last clone is
//! dropped.
//!
//! *Owner*: anyone who has the engine. [`Ending`](crate::reaper::Ending) has the protocol, and
//! `crates/core/src/reaper/README.md` the steps. This file decides who waits, and who must not.
//!
//! *Tested by*: `tests/races/stop/payloads.rs`, `tests/races/stop/backlog.rs`,
//! `tests/races/stop/cycles.rs`, `tests/races/stop/within.rs`, `tests/races/stop/sleeps.rs`.

use std::mem;
use std::time::{Duration, Instant};

use crate::dispatch::{Kind, Task, drop_each, work_for, works_for, yield_while};
use crate::error::StopError;
use crate::reaper::Waited;
#[cfg(feature = "tokio")]
use crate::sync::Ordering;

use super::Engine;
#[cfg(feature = "tokio")]
use super::core::Core;
use super::facade::Inner;
use super::thread_cache;

/// The result of a stop with a time limit: what it returned, and what it did not wait for.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// engine.schedule_detached(Duration::from_secs(3600), || println!("due"))?;
/// let stopped = engine.stop_within(Duration::from_secs(60))?;
/// assert_eq!((stopped.returned.len(), stopped.running), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Stopped<T> {
    /// The payloads that were pending and will not run.
    pub returned: Vec<T>,
    /// How many tasks still ran when the time was over (two of one shard, after a takeover), or how
    /// many threads were about to drop the handler. If zero, no task runs, and the handler was
    /// dropped. The engine's threads end then, but the destructors of their thread-locals may still
    /// run: [`stop`](Engine::stop) waits for them too.
    pub running: usize,
}

// === impl Engine: stopping ===

impl<T: Send + 'static> Engine<T> {
    /// Stops the engine, and returns every payload that was pending.
    ///
    /// From the moment of the call, no payload is taken out of a batch any more, except one that a
    /// thread is just taking, which counts as running. Payloads that were due and not yet taken
    /// come back with the rest. (What a handler has passed on, to a [pool](crate::dispatch::Pool)
    /// of which there is another clone, to a channel or to a runtime, is no longer the engine's: it
    /// goes on after a stop.) Scheduling is refused from some moment of the call on, not the same
    /// one for all threads: a call that runs meanwhile may succeed after another one was refused,
    /// and the stop then returns its payload. The stop waits for the tasks that are running. When
    /// it returns, the engine has dropped its handler, and its threads have ended, with the
    /// destructors of their thread-locals. (Of several stops at a time, one waits for the threads'
    /// ends.)
    ///
    /// The timers of [sleeps](crate::future) and of [repeating things](crate::periodic) have tasks
    /// of the engine's own. They are not returned: the sleeps and the repeating things end, before
    /// the stop waits for running tasks, of which one may await such an end. What these things
    /// captured is dropped on the calling thread.
    ///
    /// Each payload ends in exactly one of these ways, however they race: it is handed over,
    /// dropped or returned by its handle, given back by `schedule`, or returned here: once,
    /// whichever stop that is.
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
    /// The call comes from one of the engine's own tasks; the engine then goes on as before. Or it
    /// comes from what a stop drops, or from a child process.
    ///
    /// A task of another engine may stop this one. If a task of this one stops or drops that one
    /// meanwhile, both wait for ever: the engine looks for no circles through others.
    pub fn stop(&self) -> Result<Vec<T>, StopError> {
        self.inner.stop(None).map(|stopped| stopped.returned)
    }

    /// As [`stop`](Engine::stop), but waits for running tasks no longer than `limit`, and returns
    /// how many shards were still in use then.
    ///
    /// The engine is stopped in either case: no further task begins, and the rest of the batch of a
    /// task that is still running is returned by this call. The handler is dropped after the last
    /// task. Once a limit was exceeded, dropping the engine does not wait either.
    ///
    /// (The rest may be returned by the next stop instead, and without one it is dropped with the
    /// last clone of the engine, in two cases: the task of the batch ends or is taken over from
    /// during this call; or it began before the system refused a `membarrier` for the first time,
    /// which it permitted when the engine was built.)
    ///
    /// The handler is dropped by the thread that leaves the engine last. That may be the calling
    /// one, for example if no timer is due: this call then takes as long as that does, whatever the
    /// limit. (So keep a clone of a [pool](crate::dispatch::Pool), whose last clone waits for its
    /// tasks.)
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
    /// assert!(stopped.running > 0, "it waits for the release");
    /// drop(release);
    /// assert!(engine.stop()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`stop`](Engine::stop).
    pub fn stop_within(&self, limit: Duration) -> Result<Stopped<T>, StopError> {
        // A limit too long to represent is no limit.
        self.inner.stop(Instant::now().checked_add(limit))
    }

    /// Whether the engine was stopped, or is just being stopped: see [`stop`](Engine::stop).
    pub fn is_stopped(&self) -> bool {
        self.core().is_stopping()
    }
}

// === impl Inner ===

impl<T: Send + 'static> Inner<T> {
    /// Stops without waiting, and calls `sort` with what was pending. What that drops must not wait
    /// for the end of the engine, which waits for it.
    fn begin_stop<R>(&self, sort: impl FnOnce(Vec<T>) -> R) -> R {
        let sorted = self.core.stop(|pending| work_for(self.core.party(), || sort(pending)));
        self.crew.iter().for_each(|crew| crew.end());
        sorted
    }

    fn stop(&self, deadline: Option<Instant>) -> Result<Stopped<T>, StopError> {
        if self.core.is_inherited() {
            return Err(StopError::Forked);
        }
        if works_for(self.core.party()) {
            return Err(StopError::InsideTask);
        }
        let mut returned = self.begin_stop(end_own);
        let is_over = self.wait(deadline, |left| returned.append(&mut end_own(left)));
        // If all roles have ended, a thread is dropping the handler.
        let running = if is_over { 0 } else { self.core.ending.roles_left().max(1) };
        Ok(Stopped { returned, running })
    }

    /// Waits for the tasks that are running, and for the handler to be dropped. What is left behind
    /// these tasks goes to `claim` at once: one of them may wait for that. Returns whether all was
    /// done by `deadline`.
    fn wait(&self, deadline: Option<Instant>, mut claim: impl FnMut(Vec<T>)) -> bool {
        loop {
            match yield_while(|| self.core.ending.wait(deadline)) {
                Waited::Left(left) => claim(left),
                Waited::GaveUp => return false,
                Waited::Over => break,
            }
        }
        if deadline.is_none() {
            yield_while(|| self.join());
        }
        true
    }

    /// Joins the threads, which are about to return, and may still run the destructors of their
    /// thread-locals. The calling thread is none of them, since those work for the engine to the
    /// end. Only one of several stoppers joins.
    fn join(&self) {
        for thread in self.crew.iter().flat_map(|crew| crew.take_handles()) {
            thread.join().expect("a reaper does not panic");
        }
    }
}

#[cfg(feature = "tokio")]
impl<T: Send + 'static> Core<T> {
    /// Stops without waiting, because the runtime that served the engine has ended. What was
    /// pending is left to the next stop.
    pub(super) fn end_with_runtime(&self) {
        if self.is_inherited() || self.is_stopping() {
            return;
        }
        // ORDER(STOP): Relaxed - who finds the engine stopped comes after this; who does not, at
        // the moment, says so as of any other stop.
        self.runtime_ended.store(true, Ordering::Relaxed);
        // (A stop that finds nothing pending waits for this.)
        self.stop(|pending| {
            let rest = work_for(self.party(), || end_own(pending));
            drop_each(self.ending.leave(rest));
        });
    }
}

/// Ends what has timers of the engine's own among what was pending, and returns the rest. (What
/// awaits such a thing is woken when the payload of its timer is dropped.)
fn end_own<T: 'static>(pending: Vec<T>) -> Vec<T> {
    let (own, rest) = pending.into_iter().partition(ends_with_engine);
    drop_each(own);
    rest
}

/// Whether a stop ends a payload, and does not return it.
pub(super) fn ends_with_engine<T: 'static>(payload: &T) -> bool {
    Task::kind_of(payload) > Kind::User
}

impl<T: Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        if self.core.is_inherited() {
            // The engine belongs to another process. Its threads do not exist here, so they can be
            // neither joined nor detached; its locks may be held, and its lists may be
            // half-changed.
            return mem::forget((self.core.clone(), self.crew.clone()));
        }
        let waits = !self.core.ending.gave_up() && !works_for(self.core.party());
        // Before it waits for running tasks: one of them may wait for what is dropped here.
        self.begin_stop(drop_each);
        if waits {
            self.wait(None, drop_each);
        }
        // If this did not wait, the threads that still run a task drop the payloads that they
        // leave.
        drop_each(self.core.ending.abandon());
        // SAFETY: this was the last clone of the engine, and the engine is stopped.
        unsafe { self.core.dismantle() };
        thread_cache::leave(self.core.id());
    }
}
