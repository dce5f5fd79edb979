//! The timer: creates timeouts, starts, stops.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tickless::{BuildError, Engine, Stats, StopError, TurnError};

use crate::timeout::Pending;
use crate::{Builder, IntoTask, Rejected, Timeout};

/// A timer with the API of Netty's and Dubbo's hashed wheel timer.
///
/// Clones are cheap and refer to the same timer; `==` compares whether two do. When the last clone
/// is dropped, the timer ends: the waiting timeouts are cancelled and dropped, without a callback.
/// [`stop`](HashedWheelTimer::stop) returns them instead. All methods may be called from any thread
/// and from tasks, except where their docs say otherwise.
///
/// ```
/// use std::time::Duration;
/// use tickless_netty::{HashedWheelTimer, Timeout};
///
/// let timer = HashedWheelTimer::new()?;
/// timer.new_timeout(|_: &Timeout| println!("a minute later"), Duration::from_secs(60))?;
/// let waiting = timer.stop()?;
/// assert!(waiting.iter().all(Timeout::is_cancelled));
/// assert_eq!(waiting.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HashedWheelTimer {
    door: Arc<Door>,
}

/// State shared by the clones of a timer.
struct Door {
    engine: Engine<Pending>,
    number: u32,
    is_started: AtomicBool,
}

/// The timers by number, which may have ended. A timeout finds its timer here, so that making one
/// writes to no reference count that all threads share. Reading takes no lock: a process that was
/// forked from one with several threads could wait for a lock for ever.
static TIMERS: ArcSwapOption<BTreeMap<u32, Weak<Door>>> = ArcSwapOption::const_empty();

/// The number that was given out last.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The state of a timer.
///
/// ```
/// use tickless_netty::{HashedWheelTimer, WorkerState};
///
/// let timer = HashedWheelTimer::new()?;
/// assert_eq!(timer.worker_state(), WorkerState::Init);
/// timer.start()?;
/// assert_eq!(timer.worker_state(), WorkerState::Started);
/// timer.stop()?;
/// assert_eq!(timer.worker_state(), WorkerState::Shutdown);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerState {
    /// It was built, and has not been used yet.
    Init,
    /// It was started, or has created a timeout.
    Started,
    /// It has stopped for good: it creates no more timeouts.
    Shutdown,
}

/// The error of starting a timer.
///
/// ```
/// use tickless_netty::{HashedWheelTimer, StartError};
///
/// let timer = HashedWheelTimer::new()?;
/// timer.stop()?;
/// assert_eq!(timer.start(), Err(StartError::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartError {
    /// The timer has stopped, and cannot be started again.
    Stopped,
}

// === impl HashedWheelTimer ===

impl HashedWheelTimer {
    /// Creates a timer with default settings: see [`Builder`].
    ///
    /// # Errors
    /// The timer's thread could not be started.
    pub fn new() -> Result<HashedWheelTimer, BuildError> {
        Builder::new().build()
    }

    /// Returns a builder for a timer.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(super) fn on(engine: Engine<Pending>) -> HashedWheelTimer {
        // ORDER: Relaxed - the number publishes nothing else. (An engine is not built after 2^32.)
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let door = Arc::new(Door { engine, number, is_started: AtomicBool::new(false) });
        TIMERS.rcu(|timers| {
            let mut timers = timers.as_deref().cloned().unwrap_or_default();
            timers.retain(|_, door| door.strong_count() > 0);
            timers.insert(number, Arc::downgrade(&door));
            Some(Arc::new(timers))
        });
        HashedWheelTimer { door }
    }

    /// The timer with this number, if a clone of it still exists.
    pub(super) fn of_number(number: u32) -> Option<HashedWheelTimer> {
        let door = TIMERS.load().as_ref()?.get(&number)?.upgrade()?;
        Some(HashedWheelTimer { door })
    }

    /// Schedules `task` to run after `delay`: never earlier, and later by less than a tick, plus
    /// the time that the system needs to wake the timer's thread and that other tasks take. A delay
    /// of zero ends with the current tick. A delay too long to represent never ends.
    ///
    /// The task is a closure (`|timeout: &Timeout| ..`), a [`TimerTask`](crate::TimerTask), or
    /// either of them in an [`Arc`]. Never waits. O(1), however many timeouts wait. Allocates the
    /// timeout and, unless the task comes in an `Arc`, the task.
    ///
    /// Tasks that make a new timeout of the same delay each time they run, and once ran in the same
    /// tick, stay together. `spread` of a [`Schedule`](tickless::periodic::Schedule) keeps them
    /// apart.
    ///
    /// # Errors
    /// The timer is full or has stopped. The error returns the task.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::ManualClock;
    /// use tickless_netty::{HashedWheelTimer, Timeout};
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().manual_clock(&clock).build()?;
    /// let late = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(3))?;
    /// timer.advance(Duration::from_secs(3))?;
    /// assert!(late.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn new_timeout(&self, task: impl IntoTask, delay: Duration) -> Result<Timeout, Rejected> {
        self.door.begin();
        let (timeout, pending) = Timeout::new(task.into_task(), self.door.number);
        match self.door.engine.schedule(delay, pending) {
            Ok(handle) => {
                // SAFETY: this thread created the timeout, and only the engine has it as well.
                unsafe { timeout.keep(handle) };
                Ok(timeout)
            }
            Err(error) => Err(error.map(|_pending| timeout.task().clone())),
        }
    }

    /// How many timeouts are waiting: created, and neither expired nor cancelled. Those that are
    /// due count until the timer's thread comes to them, also if they were cancelled after it had
    /// collected them. Exact when no thread is inside a call. O(threads that use the timer at a
    /// time).
    pub fn pending_timeouts(&self) -> usize {
        self.door.engine.len()
    }

    /// The state of the timer: see [`WorkerState`]. It only goes forward.
    pub fn worker_state(&self) -> WorkerState {
        // ORDER: Relaxed - a label, which only goes from `false` to `true`.
        let is_started = self.door.is_started.load(Ordering::Relaxed);
        match (self.door.engine.is_stopped(), is_started) {
            (true, _) => WorkerState::Shutdown,
            (false, true) => WorkerState::Started,
            (false, false) => WorkerState::Init,
        }
    }

    /// Marks the timer as started, as its first timeout does. The timer's thread exists from the
    /// beginning and sleeps until a timeout is due, so nothing else has to be done.
    ///
    /// # Errors
    /// The timer has stopped.
    pub fn start(&self) -> Result<(), StartError> {
        self.door.begin();
        if self.door.engine.is_stopped() { Err(StartError::Stopped) } else { Ok(()) }
    }

    /// Stops the timer: no more timeouts are created, and the waiting ones are cancelled and
    /// returned, without their [`cancelled`](crate::TimerTask::cancelled) callbacks. Waits for the
    /// tasks that the timer's thread has taken out to run; after that, no task begins there. Does
    /// not wait for tasks that a dispatcher runs elsewhere.
    ///
    /// Each timeout either expires, is cancelled by [`Timeout::cancel`], or is returned here:
    /// exactly one of these, however they race. A second call returns nothing.
    ///
    /// # Errors
    /// The call comes from a task on the timer's thread, or from what such a task waits for, and
    /// would wait for that task. Or it comes from a child process.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless_netty::{HashedWheelTimer, Timeout};
    ///
    /// let timer = HashedWheelTimer::new()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(9))?;
    /// assert_eq!(timer.stop()?, [timeout]);
    /// assert!(timer.stop()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Result<Vec<Timeout>, StopError> {
        let pending = self.door.engine.stop()?;
        let mut stopped = Vec::with_capacity(pending.len());
        for pending in pending {
            // A timeout that was cancelled meanwhile is dropped here, perhaps with its task.
            contained(|| stopped.extend(pending.stop()));
        }
        Ok(stopped)
    }

    /// Advances a manual clock and runs the tasks that become due on the way, in the order of their
    /// ticks, on this thread: `advance` of the [`Engine`]. Returns how many timeouts the engine
    /// handed over. This includes timeouts that another task of the same tick cancelled.
    ///
    /// # Errors
    /// The clock is not manual, the call comes from a task, or the timer has stopped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless_netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder().manual_clock(&ManualClock::new()).build()?;
    /// timer.new_timeout(|_: &Timeout| println!("a minute later"), Duration::from_secs(60))?;
    /// assert_eq!(timer.advance(Duration::from_secs(59))?, 0);
    /// assert_eq!(timer.advance(Duration::from_secs(1))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) -> Result<usize, TurnError> {
        self.door.engine.advance(by)
    }

    /// The statistics of the engine behind the timer: how many tasks panicked, how often its thread
    /// woke up, how late timeouts were handed over.
    ///
    /// The engine counts what it handed over, not what ran: a timeout that is cancelled after that
    /// counts as `fired`.
    pub fn stats(&self) -> Stats {
        self.door.engine.stats()
    }
}

impl PartialEq for HashedWheelTimer {
    fn eq(&self, other: &HashedWheelTimer) -> bool {
        Arc::ptr_eq(&self.door, &other.door)
    }
}

impl Eq for HashedWheelTimer {}

impl fmt::Debug for HashedWheelTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashedWheelTimer")
            .field("worker_state", &self.worker_state())
            .field("pending_timeouts", &self.pending_timeouts())
            .finish()
    }
}

/// Calls `f`. A panic ends here, and its payload is leaked if dropping that panics as well.
fn contained(f: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
        mem::forget(catch_unwind(AssertUnwindSafe(|| drop(panic))));
    }
}

// === impl Door ===

impl Door {
    /// Marks the timer as started.
    fn begin(&self) {
        // ORDER: Relaxed - as in `worker_state`. Read first, so that threads share the cache line.
        if !self.is_started.load(Ordering::Relaxed) {
            // ORDER: Relaxed - as above.
            self.is_started.store(true, Ordering::Relaxed);
        }
    }
}

// === impl StartError ===

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a timer that has stopped cannot be started")
    }
}

impl std::error::Error for StartError {}
