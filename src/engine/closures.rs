//! The engine for closures: the one that most programs want.

use std::fmt;
use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::error::{BuildError, ScheduleError, StopError, TurnError};

use super::{Builder, Handle, Snapshot, Stats, Turn, TypedEngine};

/// A timer engine whose payloads are closures, run by the shard's reaper when they are due.
///
/// Closures run one after another on the reaper's thread: they should be short (send a message,
/// wake a task, set a flag). A closure that captures up to three words needs no allocation.
///
/// Clones are cheap and share the engine. When the last clone is dropped the engine stops, and
/// what is pending is dropped (a panic in that ends there); [`stop`](Engine::stop) returns it
/// instead.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// let (sender, receiver) = mpsc::channel();
/// engine.schedule_detached(Duration::from_millis(5), move || {
///     let _ = sender.send("due");
/// })?;
/// let timeout = engine.schedule(Duration::from_secs(30), || eprintln!("no answer"))?;
/// assert_eq!(receiver.recv(), Ok("due"));
/// assert!(timeout.cancel(), "the answer came in time");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    typed: TypedEngine<Task>,
}

// === impl Engine ===

impl Engine {
    /// An engine with default settings: see [`Builder`].
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn new() -> Result<Engine, BuildError> {
        Builder::new().build()
    }

    /// Sets up an engine.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(super) fn from_typed(typed: TypedEngine<Task>) -> Engine {
        Engine { typed }
    }

    /// Schedules `task` to run `delay` from now: never earlier, and later by less than a tick
    /// (plus the time that the system needs to wake the reaper, and what other tasks take). A
    /// delay too long to represent never ends.
    ///
    /// One exchange on the seat of a timer that this thread cancelled, or one push; never waits.
    /// O(1), whatever is pending.
    ///
    /// # Errors
    /// The engine is full or has stopped; the task comes back in the error.
    #[inline]
    pub fn schedule<F>(&self, delay: Duration, task: F) -> Result<Handle, ScheduleError<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.typed.schedule(delay, Task::new(task))
    }

    /// As [`schedule`](Engine::schedule), for a point in time. What is past runs at once.
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    #[inline]
    pub fn schedule_at<F>(&self, deadline: Instant, task: F) -> Result<Handle, ScheduleError<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.typed.schedule_at(deadline, Task::new(task))
    }

    /// As [`schedule`](Engine::schedule), for a task that nobody will cancel: without a handle it
    /// also fires for less.
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    #[inline]
    pub fn schedule_detached<F>(&self, delay: Duration, task: F) -> Result<(), ScheduleError<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.typed.schedule_detached(delay, Task::new(task))
    }

    /// The same engine, as one whose payload is a [`Task`].
    pub fn as_typed(&self) -> &TypedEngine<Task> {
        &self.typed
    }

    /// Stops the engine and returns the tasks that never ran: [`TypedEngine::stop`].
    ///
    /// # Errors
    /// The call comes from one of the engine's own tasks.
    pub fn stop(&self) -> Result<Vec<Task>, StopError> {
        self.typed.stop()
    }

    /// How many timers are pending: [`TypedEngine::len`].
    pub fn len(&self) -> usize {
        self.typed.len()
    }

    /// Whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.typed.is_empty()
    }

    /// The engine's time.
    pub fn now(&self) -> Instant {
        self.typed.now()
    }

    /// How many shards the engine has.
    pub fn shards(&self) -> usize {
        self.typed.shards()
    }

    /// Binds the calling thread to a shard: [`TypedEngine::bind_thread`].
    ///
    /// # Panics
    /// There is no such shard.
    pub fn bind_thread(&self, shard: usize) {
        self.typed.bind_thread(shard);
    }

    /// What the engine has counted so far: [`TypedEngine::stats`].
    ///
    /// ```
    /// let engine = tickless::Engine::new()?;
    /// assert_eq!(engine.stats().fired, 0);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.typed.stats()
    }

    /// What is pending: [`TypedEngine::snapshot`].
    ///
    /// ```
    /// let engine = tickless::Engine::new()?;
    /// println!("{}", engine.snapshot());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.typed.snapshot()
    }

    /// Runs one turn of a shard: [`TypedEngine::turn`].
    ///
    /// # Errors
    /// As [`TypedEngine::turn`].
    pub fn turn(&self, shard: usize) -> Result<Turn, TurnError> {
        self.typed.turn(shard)
    }

    /// Runs one turn that fires at most `max_fired` timers: [`TypedEngine::turn_at_most`].
    ///
    /// # Errors
    /// As [`TypedEngine::turn`].
    pub fn turn_at_most(&self, shard: usize, max_fired: usize) -> Result<Turn, TurnError> {
        self.typed.turn_at_most(shard, max_fired)
    }

    /// Moves a manual clock on and fires what becomes due: [`TypedEngine::advance`].
    ///
    /// # Errors
    /// As [`TypedEngine::advance`].
    pub fn advance(&self, by: Duration) -> Result<usize, TurnError> {
        self.typed.advance(by)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("shards", &self.shards())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
