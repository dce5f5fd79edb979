//! The engine for closures: the one that most programs want. What it does as an engine for any
//! payload does is in `delegates`.

use std::fmt;
use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::error::{BuildError, ScheduleError};

use super::{Builder, Handle, TypedEngine};

/// A timer engine whose payloads are closures, run by the shard's reaper when they are due.
///
/// Closures run one after another on the reaper's thread: they should be short (send a message,
/// wake a task, set a flag). A closure that captures up to three words needs no allocation.
///
/// Clones are cheap and share the engine. When the last clone is dropped the engine stops, and
/// what is pending is dropped (a panic in that ends there); [`stop`](Engine::stop) returns it
/// instead.
///
/// # Forks
/// An engine belongs to the process that built it, whoever drives it. In a child made by `fork`
/// there is a copy of it without its threads, and so nothing fires there, nothing hangs, and what
/// is called on it is refused: `schedule` as by an engine that has [stopped],
/// [`stop`](Engine::stop) with [`StopError::Forked`], `turn` and `advance` with
/// [`TurnError::Forked`]. A sleep of the parent's ends as if the engine had stopped. The child's
/// handles can be cancelled, which gives it back its copy of the payload, and can't be moved;
/// whatever is dropped there is dropped in silence, and its memory stays taken. The parent notices
/// nothing of all that. A child builds its own engines, and [`global`](Engine::global) is one of
/// those. (This does not hold for a child of a system call that the C library does not know of,
/// and a child that is made *inside a task* must end, or replace its program, before the task
/// returns. [`keyed`](crate::keyed) and [`purgatory`](crate::purgatory) have locks: in a child,
/// leave them alone.)
///
/// [stopped]: crate::ScheduleReason::Stopped
/// [`StopError::Forked`]: crate::StopError::Forked
/// [`TurnError::Forked`]: crate::TurnError::Forked
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
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// engine.schedule_detached(Duration::from_secs(60), || println!("a minute later"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn new() -> Result<Engine, BuildError> {
        Builder::new().build()
    }

    /// Sets up an engine.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::builder().tick(Duration::from_millis(10)).shards(1).build()?;
    /// assert_eq!(engine.shards(), 1);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
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
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock, State};
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let request = 17;
    /// let second = Duration::from_secs(1);
    /// let timeout = engine.schedule(second, move || println!("no answer to {request}"))?;
    /// assert_eq!(engine.advance(second)?, 1);
    /// assert_eq!(timeout.state(), State::Fired);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let midnight = engine.now() + Duration::from_secs(3600);
    /// let report = engine.schedule_at(midnight, || println!("the day is over"))?;
    /// assert!(report.deadline() >= Some(midnight), "never early");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// ```
    /// # use std::sync::mpsc;
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let (sender, receiver) = mpsc::channel();
    /// engine.schedule_detached(Duration::from_millis(2), move || drop(sender.send("due")))?;
    /// assert_eq!(receiver.recv()?, "due");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// As [`schedule`](Engine::schedule), for a task that may as well run up to `slack` later: at
    /// any time from `delay` to `delay + slack` from now. It then shares its wake-up with others,
    /// and is hardly ever cascaded: see [`TypedEngine::schedule_within`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let (delay, slack) = (Duration::from_secs(30), Duration::from_secs(3));
    /// let idle = engine.schedule_within(delay, slack, || println!("a silent connection"))?;
    /// assert!(idle.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    pub fn schedule_within<F>(
        &self,
        delay: Duration,
        slack: Duration,
        task: F,
    ) -> Result<Handle, ScheduleError<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.typed.schedule_within(delay, slack, Task::new(task))
    }

    /// As [`schedule_within`](Engine::schedule_within), for a point in time: the task may run from
    /// `deadline` to `deadline + slack`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let deadline = engine.now() + Duration::from_secs(60);
    /// let sweep = engine.schedule_with(deadline, Duration::from_secs(10), || println!("sweep"))?;
    /// assert!(sweep.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`schedule`](Engine::schedule).
    pub fn schedule_with<F>(
        &self,
        deadline: Instant,
        slack: Duration,
        task: F,
    ) -> Result<Handle, ScheduleError<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.typed.schedule_with(deadline, slack, Task::new(task))
    }

    /// The same engine, as one whose payload is a [`Task`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, Task};
    /// let engine = Engine::new()?;
    /// // A closure that somebody else has made into a task already.
    /// let task = Task::new(|| println!("due"));
    /// let timer = engine.as_typed().schedule(Duration::from_secs(5), task)?;
    /// assert!(timer.take().is_some(), "and here it is again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn as_typed(&self) -> &TypedEngine<Task> {
        &self.typed
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
