//! A pool of threads that runs due payloads, so that no task delays a timer.
//!
//! - [`Pool`] is the handler that users give to an engine; `builder` makes one.
//! - The queue between reapers and workers, which also counts, is `crates/sync/src/queue.rs`.
//! - `core` is what they and the pool share.
//! - `error` has the errors.

mod builder;
mod core;
mod error;
use std::mem;

use crate::sync::{Arc, JoinHandle, Mutex, MutexGuard, PoisonError};
use crate::time::Tick;

use super::inside::yield_while;
use super::{Batch, Due, Handler, Monitor, Task};

use self::core::PoolCore;
pub use builder::PoolBuilder;
pub use error::{PoolError, ShutdownError, SubmitError, SubmitReason};
#[doc(inline)]
pub use tickless_sync::queue::PoolStats;
use tickless_sync::queue::{Patience, Pushed, Source};

/// The most threads of a pool.
const MAX_THREADS: usize = 1024;

/// A bounded pool of threads, as a handler for an engine: the reaper hands payloads over and
/// continues, so that a slow task does not delay timers.
///
/// Due payloads are handed over in order, to one queue. Each thread takes one payload at a time.
/// You must choose what happens when the queue is full: see [`Full`]. A panic of a task is caught
/// and counted, and its thread continues.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::dispatch::{Full, Pool};
///
/// let pool = Pool::builder(Full::RunInline).threads(2).build()?;
/// let engine = Engine::builder().build_with_handler(pool.clone())?;
///
/// let (sender, receiver) = mpsc::channel();
/// engine.schedule_detached(Duration::from_millis(2), move || {
///     // It may be slow: other timers fire meanwhile.
///     let _ = sender.send("due");
/// })?;
/// assert_eq!(receiver.recv()?, "due");
///
/// engine.stop()?; // No timer fires after this,
/// pool.shutdown()?; // and no task runs after this.
/// assert_eq!(pool.stats().ran, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// In a child made by `fork` there are no threads, and a lock may be held for ever: do not use the
/// parent's pool there. Dropping the child's copy does nothing.
///
/// # Shutdown
///
/// Clones are cheap and share one pool, which may serve several engines. An engine drops its clone
/// when it has stopped. When the last clone is dropped, the pool finishes: payloads in the queue
/// still run (they were due, and the engine has counted them as fired), and the drop waits for
/// them. So if the engine has the only clone, stopping the engine waits for the queue. The drop
/// does not wait in one of the pool's own tasks, nor for a task that itself waits for an engine, a
/// pool or another task to end: the threads then end by themselves.
///
/// [`shutdown`](Pool::shutdown) does so at once, even if there are other clones, and waits for all
/// tasks. So a task of a pool must not shut down another one, of which a task does the same to the
/// first: both would wait for ever.
///
/// # What tasks may do
///
/// Tasks may do everything that timers' tasks may do. They may also stop the engine, run its turns
/// and hand further payloads to the pool. The pool's threads never wait for themselves: while all
/// of them wait for a reaper (inside [`Engine::stop`](crate::Engine::stop) or a turn), reapers do
/// not wait for them, even with [`Full::Block`].
///
/// But a task must not block its thread in a wait for a timer of an engine that hands over to the
/// pool, such as a [sleep](crate::future) by a `block_on`: what ends the wait runs on the pool as
/// well. While each of its threads waits like that, nothing does.
///
/// # Use with other timers
///
/// [`submit`](Pool::submit) hands one payload over, for timers that have their own callback.
///
/// ```
/// use tickless::dispatch::{Full, Pool};
///
/// let pool = Pool::builder(Full::Block).build_typed(|number: u64| println!("{number} is due"))?;
/// // In the callback of the other timer:
/// pool.submit(17)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<T: Send + 'static = Task> {
    inner: Arc<Inner<T>>,
}

/// What happens to a payload when the pool's queue is full.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::dispatch::{Full, Pool};
/// use tickless::{Engine, ManualClock};
///
/// // One payload runs, one more may wait, and the rest is dropped.
/// let pool = Pool::builder(Full::Drop).threads(1).queue_bound(1).build()?;
/// let monitor = pool.monitor();
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build_with_handler(pool)?;
/// let (go_on, told) = mpsc::channel::<()>();
/// engine.schedule_detached(Duration::ZERO, move || drop(told.recv()))?;
/// engine.advance(Duration::ZERO)?;
/// for _ in 0..5 {
///     engine.schedule_detached(Duration::from_secs(1), || println!("late"))?;
/// }
/// engine.advance(Duration::from_secs(1))?;
/// assert!(monitor.stats().dropped >= 4);
/// drop(go_on);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Full {
    /// The reaper waits for room, and its shard with it: meanwhile no other timer of that shard
    /// fires, and stopping the engine waits as well. No payload is lost, and all run on the pool.
    /// (If no worker is left that could make room, because all of them wait for a reaper, the
    /// payload runs on the reaper.)
    ///
    /// A task on such a pool must not wait for another timer of the engine, except in the ways that
    /// [`Pool`] names: that timer may be stuck behind the full queue.
    Block,
    /// The payload runs on the reaper. The shard is then as slow as its tasks, which also keeps it
    /// from handing over more. No payload is lost.
    RunInline,
    /// The payload is dropped on the reaper, and counted ([`PoolStats::dropped`]). No reaper ever
    /// waits.
    Drop,
}

/// The state that clones share. Its drop ends the pool.
struct Inner<T: Send + 'static> {
    core: Arc<PoolCore<T>>,
    full: Full,
    /// `None` only after the drop in a child process, which leaks them.
    // LOCK(WORKERS): stopper: workers; caller: workers.
    workers: Mutex<Vec<JoinHandle<()>>>,
}

/// The payloads of a batch, in the form that a pool's `work` expects.
struct Items<'a, U, F> {
    batch: Batch<'a, U>,
    form: F,
}

// === impl Pool ===

impl Pool {
    /// Returns a builder. `full` says what the pool does when its queue is full.
    pub fn builder(full: Full) -> PoolBuilder {
        PoolBuilder::new(full)
    }
}

impl<T: Send + 'static> Pool<T> {
    /// Hands one payload over, as a reaper does: pushes it to the queue, or does what the pool's
    /// [`Full`] says if the queue is full. In one of the pool's own tasks, [`Full::Block`] does not
    /// wait: the payload runs here, inside that task. O(1), apart from waiting or running it.
    ///
    /// # Errors
    /// The queue is full and the pool has [`Full::Drop`], or the pool was shut down. The payload
    /// comes back in the error, and is not counted.
    pub fn submit(&self, payload: T) -> Result<(), SubmitError<T>> {
        let mut payload = Some(payload);
        let pushed = self.inner.feed(&mut payload);
        let Some(payload) = payload else { return Ok(()) };
        let reason =
            if pushed == Pushed::Over { SubmitReason::ShutDown } else { SubmitReason::Full };
        Err(SubmitError::new(reason, payload))
    }

    /// Shuts the pool down for all of its clones, and waits until the payloads in the queue have
    /// run and the threads have ended. If an engine still uses the pool, its later payloads are
    /// dropped and counted as dropped, so stop the engine first. A second call waits as well.
    ///
    /// # Errors
    /// The caller is one of the pool's own tasks.
    ///
    /// ```
    /// use tickless::dispatch::{Full, Pool};
    ///
    /// let pool = Pool::builder(Full::Block).build_typed(|n: u32| assert!(n < 3))?;
    /// for n in 0..4 {
    ///     pool.submit(n)?;
    /// }
    /// pool.shutdown()?;
    /// let stats = pool.stats();
    /// assert_eq!((stats.ran, stats.panicked, stats.queued, stats.running), (4, 1, 0, 0));
    /// assert!(pool.submit(0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&self) -> Result<(), ShutdownError> {
        if self.inner.core.is_inside() {
            return Err(ShutdownError::InsideTask);
        }
        self.inner.core.queue.close();
        // A second caller waits here until the first is done.
        yield_while(|| self.inner.join());
        Ok(())
    }

    /// Returns what the pool has counted so far. Takes the queue's lock briefly.
    pub fn stats(&self) -> PoolStats {
        self.inner.core.queue.stats()
    }

    /// Returns a view of the statistics that does not keep the pool alive.
    pub fn monitor(&self) -> Monitor<PoolStats> {
        let queue = self.inner.core.queue.clone();
        Monitor::new(move || queue.stats())
    }
}

impl<T: Send + 'static> Handler<T> for Pool<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.inner.queue_batch(batch, |_, (_, payload)| payload);
    }
}

impl<T: Send + 'static> Handler<T> for Pool<Due<T>> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.inner.queue_batch(batch, Batch::due);
    }
}

impl<T: Send + 'static> Clone for Pool<T> {
    fn clone(&self) -> Pool<T> {
        Pool { inner: self.inner.clone() }
    }
}

unwind_safe! { impl[T: Send + 'static] Pool[T] }

debug! { impl[T: Send + 'static] Pool[T] {
    full = |this| this.inner.full,
    stats = |this| this.stats(),
} }

// === impl Inner ===

impl<T: Send + 'static> Inner<T> {
    /// Takes a batch, whose payloads `form` turns into what `work` expects. Payloads that the pool
    /// does not take are dropped here, one by one: a stop of the engine may still claim the rest.
    fn queue_batch<'a, U>(
        &self,
        batch: Batch<'a, U>,
        form: impl Fn(&Batch<'a, U>, (Tick, U)) -> T,
    ) {
        let mut items = Items { batch, form };
        self.feed(&mut items);
        while let Some(payload) = items.pull() {
            // Counted before the drop, which may panic.
            self.core.queue.count_dropped(1);
            drop(payload);
        }
    }

    /// Hands payloads over while the pool takes them.
    fn feed(&self, payloads: &mut impl Source<Item = T>) -> Pushed {
        loop {
            let mut pushed = self.core.queue.push(payloads, Patience::Leaves);
            if pushed == Pushed::Full && self.full == Full::Block && !self.core.is_inside() {
                // This may be a worker of another pool, whose reapers wait for it.
                payloads.waits(true);
                pushed = yield_while(|| self.core.queue.push(payloads, Patience::Waits));
                payloads.waits(false);
            }
            if pushed != Pushed::Full || self.full == Full::Drop {
                return pushed;
            }
            if let Some(payload) = payloads.pull() {
                self.core.run_here(payload);
            }
        }
    }

    fn join(&self) {
        for worker in self.workers().drain(..) {
            worker.join().expect("a worker does not panic");
        }
    }

    fn workers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().expect("nothing panics under this lock")
    }
}

impl<T: Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        if !self.core.process.is_current() {
            // A child process has no workers to join, and a worker may have held the queue's lock
            // at the fork. So both are leaked.
            let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::take(workers));
            return mem::forget(self.core.clone());
        }
        self.core.queue.close();
        if !self.core.is_inside() {
            yield_while(|| {
                if self.core.queue.wait_for_workers() {
                    self.join();
                }
            });
        }
    }
}

// === impl Source ===

impl<'a, U, T, F> Source for Items<'a, U, F>
where
    F: Fn(&Batch<'a, U>, (Tick, U)) -> T,
{
    type Item = T;

    fn left(&self) -> usize {
        self.batch.len()
    }

    fn pull(&mut self) -> Option<T> {
        let next = self.batch.pull()?;
        Some((self.form)(&self.batch, next))
    }

    fn waits(&mut self, is_waiting: bool) {
        self.batch.waits(is_waiting);
    }
}
