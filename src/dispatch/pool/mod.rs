//! A pool of threads that runs what is due, so that no task holds up a timer.
//!
//! - [`Pool`] is what users have, and what they give to an engine; `builder` puts one together.
//! - `queue` is what stands between reapers and workers, `source` what it is fed from; `crew` is
//!   the workers.
//! - `stats` says what was counted, `error` what can go wrong.

mod builder;
mod crew;
mod error;
#[doc(hidden)]
pub mod queue;
mod source;
mod stats;

use std::{fmt, mem};

use crate::sync::{Arc, JoinHandle, Mutex};

use super::due_items::DueItems;
use super::process::Process;
use super::waits::wait_for;
use super::yielding::yield_while;
use super::{Batch, Due, Handler, Monitor, Task};

pub use builder::PoolBuilder;
use crew::Crew;
pub use error::{PoolError, ShutdownError, SubmitError, SubmitReason};
use queue::{Patience, Pushed, Source};
pub use stats::PoolStats;

/// A bounded pool of threads, as a handler for an engine: the reaper hands over and goes on, and
/// however slow a task is, no timer waits for it.
///
/// What is due is handed over in order, to one queue; each thread takes one payload at a time. What
/// happens when the queue is full is the one thing that has to be said: see [`Full`]. A task that
/// panics is counted, and its thread goes on.
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
///     // It may take its time: other timers are fired meanwhile.
///     let _ = sender.send("due");
/// })?;
/// assert_eq!(receiver.recv()?, "due");
///
/// engine.stop()?; // From here on nothing is due any more,
/// pool.shutdown()?; // and from here on no task runs any more.
/// assert_eq!(pool.stats().ran, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Its end
///
/// Clones are cheap and are the same pool, which may serve several engines; an engine lets go of
/// the one that it was given when it has stopped. When the last one goes, the pool finishes: what
/// is in the queue still runs (it was due, and the engine has counted it as fired), and whoever let
/// go of the last one waits for that, unless that is one of the pool's own tasks: then its threads
/// end by themselves. So if the engine has the only one, stopping the engine waits for the queue.
///
/// [`shutdown`](Pool::shutdown) does the same at once, whoever else has the pool.
///
/// # What its tasks may do
///
/// Everything that timers' tasks may do, and more: stop the engine, run its turns, hand further
/// payloads to the pool. The pool's threads do not wait for themselves: while all of them wait for
/// a reaper (inside [`Engine::stop`](crate::Engine::stop) or a turn), reapers do not wait
/// for them, also with [`Full::Block`].
///
/// # For other timers
///
/// [`submit`](Pool::submit) hands one payload over: for timers with a hook of their own.
///
/// ```
/// use std::time::Duration;
/// use tickless::dispatch::{Full, Pool};
/// use tickless::netty::{Expired, HashedWheelTimer, Timeout};
///
/// let pool = Pool::builder(Full::Block).build_typed(Expired::run)?;
/// let timer = HashedWheelTimer::builder()
///     .dispatcher(move |expired| drop(pool.submit(expired)))
///     .build()?;
/// timer.new_timeout(|_: &Timeout| println!("on the pool"), Duration::from_millis(100))?;
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
/// // One at a time; one more may wait; what comes besides has to be dealt with.
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
    /// The reaper waits for room, and its shard with it: no other timer of that shard fires
    /// meanwhile, and stopping the engine waits as well. Nothing is lost and nothing runs anywhere
    /// but on the pool. (Where no worker is left that could make room, because they all wait for a
    /// reaper themselves, the payload runs where it is handed over.)
    ///
    /// A task on such a pool must not wait for another timer of the engine in any other way than
    /// those that [`Pool`] names: that timer may stand behind the full queue.
    Block,
    /// The payload runs where it is handed over, on the reaper: that shard is as slow as its tasks
    /// then, which also keeps it from handing over more. Nothing is lost.
    RunInline,
    /// The payload is dropped there, and counted ([`PoolStats::dropped`]). No reaper ever waits.
    Drop,
}

/// Ends the pool when the last who has it lets go.
struct Inner<T: Send + 'static> {
    crew: Arc<Crew<T>>,
    full: Full,
    /// There, but for a child process that has let go of it.
    workers: Option<Mutex<Vec<JoinHandle<()>>>>,
    /// Where its workers are.
    process: Process,
}

// === impl Pool ===

impl Pool {
    /// Sets up a pool, of which only what it does with what does not fit is known.
    ///
    /// ```
    /// use tickless::dispatch::{Full, Pool};
    ///
    /// let pool = Pool::builder(Full::Drop).queue_bound(100).build()?;
    /// # Ok::<(), tickless::dispatch::PoolError>(())
    /// ```
    pub fn builder(full: Full) -> PoolBuilder {
        PoolBuilder::new(full)
    }
}

impl<T: Send + 'static> Pool<T> {
    fn from_parts(crew: Arc<Crew<T>>, full: Full, workers: Vec<JoinHandle<()>>) -> Pool<T> {
        let (workers, process) = (Some(Mutex::new(workers)), Process::current());
        Pool { inner: Arc::new(Inner { crew, full, workers, process }) }
    }

    /// Hands one payload over, as a reaper does: it waits in the queue, or if that is full, what
    /// the pool's [`Full`] says happens. O(1), besides waiting or running the payload.
    ///
    /// # Errors
    /// The queue is full and the pool drops what does not fit, or the pool was shut down. The
    /// payload comes back, and is not counted.
    ///
    /// ```
    /// use tickless::dispatch::{Full, Pool};
    ///
    /// let pool = Pool::builder(Full::Block).build_typed(|line: &str| println!("{line}"))?;
    /// pool.submit("hello")?;
    /// pool.shutdown()?;
    /// assert_eq!(pool.stats().ran, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit(&self, payload: T) -> Result<(), SubmitError<T>> {
        let mut payload = Some(payload);
        let pushed = self.inner.feed(&mut payload);
        match payload {
            None => Ok(()),
            Some(payload) => Err(SubmitError::new(
                match pushed {
                    Pushed::Over => SubmitReason::ShutDown,
                    _ => SubmitReason::Full,
                },
                payload,
            )),
        }
    }

    /// Shuts the pool down for all who have it, and waits until what is in the queue has run and
    /// the threads have ended. What is due later on an engine that has the pool is dropped, and
    /// counted as such: stop the engine first. Shutting down again waits as well.
    ///
    /// # Errors
    /// The call comes from one of the pool's own tasks, for which it would wait.
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
        if self.inner.crew.is_inside() {
            return Err(ShutdownError::InsideTask);
        }
        let _waiting = wait_for(self.inner.crew.party()).ok_or(ShutdownError::Circular)?;
        self.inner.finish();
        Ok(())
    }

    /// What the pool has counted so far. Takes the queue's lock for a moment.
    ///
    /// ```
    /// use tickless::dispatch::{Full, Pool, PoolStats};
    ///
    /// let pool = Pool::builder(Full::Block).build()?;
    /// assert_eq!(pool.stats(), PoolStats::default());
    /// # Ok::<(), tickless::dispatch::PoolError>(())
    /// ```
    pub fn stats(&self) -> PoolStats {
        self.inner.crew.queue.counters().into()
    }

    /// A view of the same that does not keep the pool going.
    ///
    /// ```
    /// use tickless::Engine;
    /// use tickless::dispatch::{Full, Pool};
    ///
    /// let pool = Pool::builder(Full::Block).build()?;
    /// let monitor = pool.monitor();
    /// let engine = Engine::builder().build_with_handler(pool)?;
    /// engine.stop()?; // The engine had the only one: the pool has ended by now.
    /// assert_eq!(monitor.stats().queued, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn monitor(&self) -> Monitor<PoolStats> {
        let queue = self.inner.crew.queue.clone();
        Monitor::new(move || queue.counters().into())
    }
}

impl<T: Send + 'static> Handler<T> for Pool<T> {
    fn fire(&self, mut batch: Batch<'_, T>) {
        self.inner.take_all(&mut batch);
    }
}

impl<T: Send + 'static> Handler<T> for Pool<Due<T>> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.inner.take_all(&mut DueItems(batch));
    }
}

impl<T: Send + 'static> Clone for Pool<T> {
    fn clone(&self) -> Pool<T> {
        Pool { inner: self.inner.clone() }
    }
}

impl<T: Send + 'static> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("full", &self.inner.full)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl<T: Send + 'static> Inner<T> {
    /// Takes a batch. What the pool takes no more is dropped here, one by one: a stop of the engine
    /// may still claim the rest.
    fn take_all(&self, batch: &mut impl Source<Item = T>) {
        self.feed(batch);
        while let Some(payload) = batch.pull() {
            batch.settle();
            // Before it is dropped: a drop may panic.
            self.crew.queue.count_dropped(1);
            drop(payload);
        }
    }

    /// Hands payloads over, as long as the pool takes any.
    fn feed(&self, payloads: &mut impl Source<Item = T>) -> Pushed {
        loop {
            let mut pushed = self.crew.queue.push(payloads, Patience::Leaves);
            if pushed == Pushed::Full && self.full == Full::Block && !self.crew.is_inside() {
                // It may be a worker of another pool, whose reapers wait for this one.
                pushed = yield_while(|| self.crew.queue.push(payloads, Patience::Waits));
            }
            if pushed != Pushed::Full || self.full == Full::Drop {
                return pushed;
            }
            if let Some(payload) = payloads.pull() {
                payloads.settle();
                self.crew.run_here(payload);
            }
        }
    }

    /// Lets the workers empty the queue and end, and waits for them.
    fn finish(&self) {
        let Some(workers) = self.workers.as_ref().filter(|_| self.process.is_current()) else {
            return;
        };
        self.crew.queue.close();
        // A second one waits here until the first is done.
        yield_while(|| {
            let mut workers = workers.lock().expect("nothing panics under this lock");
            for worker in workers.drain(..) {
                worker.join().expect("a worker does not panic");
            }
        });
    }
}

impl<T: Send + 'static> Drop for Inner<T> {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // A child process has no workers, not even to let go of, and the queue's lock may be
            // held by one.
            mem::forget(self.workers.take());
            return mem::forget(self.crew.clone());
        }
        match wait_for(self.crew.party()).filter(|_| !self.crew.is_inside()) {
            Some(_waiting) => self.finish(),
            None => self.crew.queue.close(),
        }
    }
}
