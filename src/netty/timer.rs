//! The timer: makes timeouts, starts, stops.

use std::fmt;
use std::time::Duration;

use crate::dispatch::contained;
use crate::engine::{Engine, Registry, Stats};
use crate::error::{BuildError, ScheduleError, StopError, TurnError};
use crate::sync::{Arc, AtomicU32, Ordering};

use super::timeout::Pending;
use super::{Builder, IntoTask, RejectReason, Rejected, StartError, Timeout};

/// A timer in the shape of Netty's and Dubbo's hashed wheel.
///
/// Clones are cheap and are the same timer, which is also what `==` compares. When the last one
/// goes the timer ends: what is waiting is cancelled and let go, without a callback;
/// [`stop`](HashedWheelTimer::stop) returns it instead. All methods may be called from any thread
/// and from tasks, except where they say otherwise.
///
/// ```
/// use std::time::Duration;
/// use tickless::netty::{HashedWheelTimer, Timeout};
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

/// What a timer's clones share.
struct Door {
    engine: Engine<Pending>,
    /// A [`WorkerState`]; it only grows.
    stage: AtomicU32,
    max_pending: Option<u64>,
}

/// Every timer, by its engine's number.
static TIMERS: Registry = Registry::empty();

/// Where a timer is in its life.
///
/// ```
/// use tickless::netty::{HashedWheelTimer, WorkerState};
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
    /// It was built, and nobody has used it yet.
    Init,
    /// It was started, or has made a timeout.
    Started,
    /// It has stopped, for good: no timeout is made any more.
    Shutdown,
}

// === impl HashedWheelTimer ===

impl HashedWheelTimer {
    /// A timer with default settings: see [`Builder`].
    ///
    /// # Errors
    /// The timer's thread could not be started.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// timer.new_timeout(|_: &Timeout| println!("a minute later"), Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Result<HashedWheelTimer, BuildError> {
        Builder::new().build()
    }

    /// Sets up a timer.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::HashedWheelTimer;
    /// let timer = HashedWheelTimer::builder().tick_duration(Duration::from_millis(10)).build()?;
    /// assert_eq!(timer.pending_timeouts(), 0);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(super) fn on(engine: Engine<Pending>, max_pending: Option<u64>) -> HashedWheelTimer {
        let stage = AtomicU32::new(WorkerState::Init as u32);
        let door = Arc::new(Door { engine, stage, max_pending });
        TIMERS.enter(door.engine.number(), &door);
        HashedWheelTimer { door }
    }

    /// The timer with that number, if somebody still has it.
    pub(super) fn of_number(number: u32) -> Option<HashedWheelTimer> {
        TIMERS.find(number).map(|door| HashedWheelTimer { door })
    }

    /// Runs `task` `delay` from now: never earlier, and later by less than a tick (plus the time
    /// that the system needs to wake the timer's thread, and what other tasks take). A delay of
    /// zero ends with the present tick; one too long to represent never does.
    ///
    /// The task is a closure (`|timeout: &Timeout| ..`), a [`TimerTask`](super::TimerTask), or
    /// either of them in an [`Arc`]. Never waits. O(1), whatever is waiting; allocates the timeout
    /// and, unless it is shared already, the task.
    ///
    /// # Errors
    /// The timer is full or has stopped; the task comes back in the error.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::ManualClock;
    /// use tickless::netty::{HashedWheelTimer, Timeout};
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().manual_clock(&clock).build()?;
    /// let late = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(3))?;
    /// timer.advance(Duration::from_secs(3))?;
    /// assert!(late.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new_timeout(&self, task: impl IntoTask, delay: Duration) -> Result<Timeout, Rejected> {
        let task = task.into_task();
        if !self.door.begin() {
            return Err(Rejected::new(RejectReason::Stopped, task));
        }
        let timeout = Timeout::new(task, self.door.engine.number());
        match self.door.engine.schedule(delay, timeout.pending()) {
            Ok(handle) => {
                // SAFETY: this is the maker, and nobody but the engine has the timeout yet.
                unsafe { timeout.keep(handle) };
                Ok(timeout)
            }
            Err(error) => Err(self.door.rejected(&timeout, &error)),
        }
    }

    /// How many timeouts are waiting: made, and neither expired nor cancelled. Those that the
    /// timer's thread has taken out to run them are not counted any more. Exact when no thread is
    /// inside a call. O(threads that have used the timer).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(5))?;
    /// assert_eq!(timer.pending_timeouts(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pending_timeouts(&self) -> usize {
        self.door.engine.len()
    }

    /// Where the timer is in its life: see [`WorkerState`]. It only goes forward.
    ///
    /// ```
    /// # use tickless::netty::{HashedWheelTimer, WorkerState};
    /// let timer = HashedWheelTimer::new()?;
    /// timer.stop()?;
    /// assert_eq!(timer.worker_state(), WorkerState::Shutdown, "no use in making timeouts");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn worker_state(&self) -> WorkerState {
        self.door.stage()
    }

    /// Marks the timer as started, as its first timeout does. Its thread exists from the beginning
    /// and sleeps until something is due, so there is nothing else to do.
    ///
    /// # Errors
    /// The timer has stopped.
    ///
    /// ```
    /// # use tickless::netty::{HashedWheelTimer, WorkerState};
    /// let timer = HashedWheelTimer::new()?;
    /// timer.start()?;
    /// assert_eq!(timer.worker_state(), WorkerState::Started);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(&self) -> Result<(), StartError> {
        if self.door.begin() { Ok(()) } else { Err(StartError::Stopped) }
    }

    /// Stops the timer: no timeout is made from here on, and what was waiting is cancelled and
    /// returned, without its [`cancelled`](super::TimerTask::cancelled) callback. Waits for the
    /// tasks that the timer's thread has taken out to run, after which none begins there; not for
    /// what a dispatcher runs elsewhere.
    ///
    /// A timeout that was made expires, is cancelled by [`Timeout::cancel`], or is returned here:
    /// exactly one of these, however they race. Stopping again returns nothing.
    ///
    /// # Errors
    /// The call comes from a task on the timer's thread, for which it would wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::netty::{HashedWheelTimer, Timeout};
    ///
    /// let timer = HashedWheelTimer::new()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(9))?;
    /// assert_eq!(timer.stop()?, [timeout]);
    /// assert!(timer.stop()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> Result<Vec<Timeout>, StopError> {
        let pending = self.door.engine.stop()?;
        self.door.end();
        let mut stopped = Vec::with_capacity(pending.len());
        for pending in pending {
            // One that was cancelled meanwhile goes here, and with it perhaps its task.
            contained(|| stopped.extend(pending.stop()));
        }
        Ok(stopped)
    }

    /// Moves a manual clock on and runs what becomes due on the way, in order of its ticks, on this
    /// thread: [`Engine::advance`]. Answers how many timeouts the engine handed over, which
    /// includes those that another of the same tick cancelled just then.
    ///
    /// # Errors
    /// The clock is not manual, the call comes from a task, or the timer has stopped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder().manual_clock(&ManualClock::new()).build()?;
    /// timer.new_timeout(|_: &Timeout| println!("a minute later"), Duration::from_secs(60))?;
    /// assert_eq!(timer.advance(Duration::from_secs(59))?, 0);
    /// assert_eq!(timer.advance(Duration::from_secs(1))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) -> Result<usize, TurnError> {
        self.door.engine.advance(by)
    }

    /// What the engine behind the timer has counted: how many tasks panicked, how often its thread
    /// woke up, how late timeouts were handed over.
    ///
    /// It sees what was handed over, not what ran: a timeout that is cancelled after that is one
    /// that `fired` here.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(5))?.cancel();
    /// assert_eq!((timer.stats().scheduled, timer.stats().cancelled), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
            .finish_non_exhaustive()
    }
}

// === impl Door ===

impl Door {
    fn stage(&self) -> WorkerState {
        // ORDER: Relaxed - a label; who gets in and what is returned is decided by the engine. It
        // only grows, so that one who was refused, or has stopped it, does not see it go back.
        match self.stage.load(Ordering::Relaxed) {
            stage if stage == WorkerState::Init as u32 => WorkerState::Init,
            stage if stage == WorkerState::Started as u32 => WorkerState::Started,
            _ => WorkerState::Shutdown,
        }
    }

    /// Somebody uses the timer. `false`: it has stopped.
    fn begin(&self) -> bool {
        match self.stage() {
            WorkerState::Init => {
                let started = WorkerState::Started as u32;
                // ORDER: Relaxed - as in `stage`.
                let before = self.stage.fetch_max(started, Ordering::Relaxed);
                before <= started
            }
            WorkerState::Started => true,
            WorkerState::Shutdown => false,
        }
    }

    /// Somebody has found the engine stopped.
    fn end(&self) {
        // ORDER: Relaxed - as in `stage`.
        self.stage.fetch_max(WorkerState::Shutdown as u32, Ordering::Relaxed);
    }

    /// The engine refused a timeout, and has given its reference back.
    fn rejected(&self, timeout: &Timeout, error: &ScheduleError<Pending>) -> Rejected {
        let task = timeout.task().clone();
        match self.max_pending {
            Some(max) if error.is_full() => Rejected::new(RejectReason::Full { max }, task),
            _ => {
                self.end();
                Rejected::new(RejectReason::Stopped, task)
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        TIMERS.leave(self.engine.number());
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("engine", &self.engine).finish_non_exhaustive()
    }
}
