//! Timers by the system's wall clock: for times of day, dates and cron expressions.
//!
//! All other timers of this crate use a monotonic clock, which cannot be set. That is right for
//! timeouts, and wrong for "at six in the morning": people and time servers set the wall clock, and
//! let it run faster or slower. The timers here follow it. If the clock is set forward past a
//! timer, the timer is due at once; if it is set back, the timer waits for longer.
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::{Duration, SystemTime};
//! use tickless::Engine;
//! use tickless::wall::WallTimers;
//!
//! let engine = Engine::new()?;
//! let timers = WallTimers::new(&engine)?;
//! let (sender, due) = mpsc::channel();
//! let time = SystemTime::now() + Duration::from_millis(5);
//! timers.schedule(time, move || sender.send(SystemTime::now()).unwrap())?;
//! assert!(due.recv()? >= time);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! Calendars and cron expressions plug in as a closure that returns the next time
//! ([`WallTimers::repeat`]). The example `cron` does that with a crate for cron expressions.
//!
//! # What it costs
//!
//! These timers are kept apart from those of the engine, in a sorted map under a lock, and a thread
//! sleeps by the wall clock until the first of them is due. (On Linux the system wakes it when the
//! clock is set. On other systems it looks once per second.) Scheduling, cancelling and resetting
//! are O(log *n*). That is meant for thousands of timers, not for millions. What is due is handed
//! to the engine, and its task runs where all tasks of the engine run.
//!
//! # Tests
//!
//! [`WallTimers::by_hand`] makes timers whose wall clock is set by hand.

// `table` is the map, under its lock; `keeper` sleeps until the first timer is due, and hands over.
mod keeper;
mod table;

use std::io;
use std::time::SystemTime;

use crate::dispatch::{IntoPayload, Task, drop_each};
use crate::engine::{Engine, EngineRef};
use crate::error::ScheduleError;
use crate::os::{AlarmClock, AlarmFiles};
use crate::sync::{Arc, QuietMutex};

use keeper::{Keeper, Thread};
use table::{Item, Repeat};

/// The wall-clock timers of an engine: see the [module](crate::wall).
///
/// It does not keep its engine alive. If the engine has stopped, nothing runs any more: what
/// becomes due stays here, until [`stop`](WallTimers::stop) returns it. An engine is never full for
/// what is due here. Dropping this cancels all its timers, and ends its thread. (A task that owns
/// it, by an `Arc` for example, keeps it until that task has run or was cancelled. So one that
/// repeats has to be cancelled.)
///
/// In a child made by `fork` it must not be used. Dropping the child's copy ends nothing. (By hand,
/// it drops the child's copies of the tasks.)
pub struct WallTimers {
    keeper: Arc<Keeper>,
    // LOCK(WALL-THREAD): caller: end.
    thread: QuietMutex<Option<Thread>>,
}

/// A timer by the wall clock: cancel it, move it or look at it. Created by
/// [`WallTimers`].
///
/// Clones refer to the same timer. If all are dropped, the timer stays.
#[derive(Clone)]
pub struct WallTimer {
    keeper: Arc<Keeper>,
    number: u64,
}

// === impl WallTimers ===

impl WallTimers {
    /// Makes wall-clock timers whose tasks run on `engine`, and starts their thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn new(engine: &Engine) -> io::Result<WallTimers> {
        let keeper = Keeper::new(EngineRef::new(engine), None);
        let thread = QuietMutex::new(Some(Thread::start(
            &keeper,
            AlarmFiles::new(AlarmClock::Realtime).ok(),
        )?));
        Ok(WallTimers { keeper, thread })
    }

    /// Makes timers by a wall clock that shows `now`, until [`set_now`](WallTimers::set_now) sets
    /// it. There is no thread.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tickless::wall::WallTimers;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(43_200);
    /// let hour = Duration::from_secs(3600);
    /// let timers = WallTimers::by_hand(&engine, noon);
    /// timers.schedule(noon + hour, || println!("one o'clock"))?;
    /// assert_eq!(timers.set_now(noon - 9 * hour), 0, "it was set back");
    /// assert_eq!(timers.set_now(noon + 2 * hour), 1);
    /// // The engine runs the task.
    /// assert_eq!(engine.advance(Duration::ZERO)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn by_hand(engine: &Engine, now: SystemTime) -> WallTimers {
        let keeper = Keeper::new(EngineRef::new(engine), Some(now));
        WallTimers { keeper, thread: QuietMutex::new(None) }
    }

    /// Sets a clock that is set by hand, forward or back, and hands what is due to the engine.
    /// Returns how many timers that were. (One that is scheduled or moved to a time that has passed
    /// is handed over there.)
    ///
    /// # Panics
    /// The clock is the system's.
    #[track_caller]
    pub fn set_now(&self, now: SystemTime) -> usize {
        assert!(self.keeper.set_now(now), "only a clock by hand can be set");
        self.keeper.look().handed_over
    }

    /// Returns the time that the wall clock shows.
    pub fn now(&self) -> SystemTime {
        self.keeper.now()
    }

    /// Schedules `task` for `time`. It runs when the wall clock has reached that time, never
    /// earlier by that clock, and late by the time that the system and the engine need to wake
    /// their threads. A time that has passed is due at once.
    ///
    /// If the returned handle is dropped, the timer stays.
    ///
    /// # Errors
    /// [`stop`](WallTimers::stop) was called; the task comes back in the error.
    pub fn schedule(
        &self,
        time: SystemTime,
        task: impl IntoPayload<Task>,
    ) -> Result<WallTimer, ScheduleError<Task>> {
        let entered = self.enter(time, Item::Once(task.into_payload()));
        entered.map_err(|item| ScheduleError::stopped(item.into_task(time)))
    }

    /// Runs `task` at the times that `next` returns, one after another. `task` gets the time at
    /// which it was due.
    ///
    /// `next` gets a time and returns the next run after it, or `None` to end. It is called here
    /// with the present, and after each run with the present or, if the clock was set back
    /// meanwhile, with the time of that run. So times that pass while a run goes on, or that the
    /// clock is set past, are skipped, and no time comes twice in a row. If the clock is set back
    /// while a timer waits, that timer waits for longer.
    ///
    /// A time that has passed when `next` returns it is due at once. Runs do not overlap. If `task`
    /// panics, what runs the engine's tasks counts it, and the next run comes as usual; so it
    /// does if the engine's handler drops a run. If `next` panics, there are no more runs.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tickless::wall::WallTimers;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let midnight = SystemTime::UNIX_EPOCH;
    /// let timers = WallTimers::by_hand(&engine, midnight);
    /// /// The next full hour.
    /// fn next_hour(after: SystemTime) -> Option<SystemTime> {
    ///     let seconds = after.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    ///     Some(SystemTime::UNIX_EPOCH + Duration::from_secs((seconds / 3600 + 1) * 3600))
    /// }
    /// let hourly = timers.repeat(next_hour, |due| println!("{due:?}"))?;
    /// let hour = Duration::from_secs(3600);
    /// assert_eq!(hourly.deadline(), Some(midnight + hour));
    /// timers.set_now(midnight + hour * 5 / 2);
    /// engine.advance(Duration::ZERO)?;
    /// assert_eq!(hourly.deadline(), Some(midnight + 3 * hour), "two o'clock was skipped");
    /// assert!(hourly.cancel());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// `next` returned no time, or [`stop`](WallTimers::stop) was called. `task` is dropped.
    ///
    /// # Panics
    /// Propagates a panic of `next`.
    pub fn repeat(
        &self,
        mut next: impl FnMut(SystemTime) -> Option<SystemTime> + Send + 'static,
        task: impl FnMut(SystemTime) + Send + 'static,
    ) -> Result<WallTimer, RepeatError> {
        let time = next(self.now()).ok_or(RepeatError::NoRun)?;
        let repeat = Box::new(Repeat { next: Box::new(next), task: Box::new(task) });
        self.enter(time, Item::Repeat(repeat)).map_err(|_| RepeatError::Stopped)
    }

    fn enter(&self, time: SystemTime, item: Item) -> Result<WallTimer, Item> {
        let number = self.keeper.enter(time, item)?;
        Ok(WallTimer { keeper: self.keeper.clone(), number })
    }

    /// Returns how many timers wait for their time.
    pub fn len(&self) -> usize {
        self.keeper.waiting().0
    }

    /// Whether no timer waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns when the first timer is due.
    pub fn next_deadline(&self) -> Option<SystemTime> {
        self.keeper.waiting().1
    }

    /// Ends all timers. Returns the tasks that wait, and those that a stopped engine has refused,
    /// in the order of their times. From here on, [`schedule`](WallTimers::schedule) returns an
    /// error. What was handed to the engine before is the engine's.
    ///
    /// This ends the thread, and waits for that, unless it is that thread (inside a hook). (Of
    /// several stops at a time, one waits.) By hand
    /// there is no thread: what another call is just handing to an engine that refuses it is not
    /// returned, and is dropped with the timers.
    ///
    /// A task that repeats runs once if it is run.
    pub fn stop(&self) -> Vec<Task> {
        self.end(false)
    }

    fn end(&self, all: bool) -> Vec<Task> {
        self.keeper.lock().close();
        self.keeper.ring();
        let thread = self.thread.lock().take();
        // After this, nothing is on its way to the engine.
        thread.into_iter().for_each(Thread::end);
        let left = self.keeper.lock().take_left(all);
        left.into_iter().map(|(time, item)| item.into_task(time)).collect()
    }
}

impl Drop for WallTimers {
    fn drop(&mut self) {
        if self.keeper.process.is_current() {
            drop_each(self.end(true));
        }
        // In a child, the thread does not exist, and the lock may never be released.
    }
}

debug! { impl[] WallTimers[] { len = |this| this.len() } }

// === impl WallTimer ===

impl WallTimer {
    /// Cancels the timer. Returns `true` if its task will not run (again): it was dropped here, or,
    /// if a task that repeats is running, will be dropped after the run. Returns `false` if the
    /// timer was over: cancelled before, stopped, or its only run had begun.
    ///
    /// # Panics
    /// Propagates a panic of the task's drop. The timer is cancelled all the same.
    pub fn cancel(&self) -> bool {
        // The lock is released before the task is dropped.
        let cancelled = self.keeper.lock().end(self.number);
        cancelled.map(drop).is_some()
    }

    /// Moves the timer to `time`, also if it is due and its task has not begun. Of a task that
    /// repeats this moves the next run. Returns `false` if the task runs, the timer is over, or
    /// [`stop`](WallTimers::stop) was called: what the engine has by then stays with it.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use tickless::wall::WallTimers;
    /// # use tickless::{Engine, ManualClock};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// # let (now, hour) = (SystemTime::UNIX_EPOCH, Duration::from_secs(3600));
    /// # let timers = WallTimers::by_hand(&engine, now);
    /// let certificate = timers.schedule(now + hour, || println!("it expires"))?;
    /// assert!(certificate.reset(now + 24 * hour), "it was renewed");
    /// assert_eq!(timers.set_now(now + 2 * hour), 0);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn reset(&self, time: SystemTime) -> bool {
        self.keeper.reset(self.number, time)
    }

    /// Returns the time that the timer waits for. `None`: it was handed to the engine, it runs, or
    /// it is over.
    pub fn deadline(&self) -> Option<SystemTime> {
        self.keeper.lock().time_of(self.number)
    }

    /// Whether the timer is over: its only run has begun, it has no further runs, it was cancelled
    /// or returned by a stop.
    pub fn is_over(&self) -> bool {
        self.keeper.lock().is_over(self.number)
    }
}

debug! { impl[] WallTimer[] { deadline = |this| this.deadline() } }

/// Why a repeating task was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RepeatError {
    /// There is no first time.
    NoRun,
    /// The timers were stopped.
    Stopped,
}

display! { RepeatError {
    NoRun => "there is no time for a first run",
    Stopped => "the wall-clock timers were stopped",
} }

impl std::error::Error for RepeatError {}
