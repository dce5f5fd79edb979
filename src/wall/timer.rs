//! The caller's handle of a wall-clock timer.

use std::time::SystemTime;

use crate::sync::Arc;

use super::keeper::Keeper;

/// A timer by the wall clock: cancel it, move it or look at it. Created by
/// [`WallTimers`](super::WallTimers).
///
/// Clones refer to the same timer. If all are dropped, the timer stays.
#[derive(Clone)]
pub struct WallTimer {
    pub(super) keeper: Arc<Keeper>,
    pub(super) number: u64,
}

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
        let cancelled = self.keeper.table().end(self.number);
        cancelled.map(drop).is_some()
    }

    /// Moves the timer to `time`, also if it is due and its task has not begun. Of a task that
    /// repeats this moves the next run. Returns `false` if the task runs, or the timer is over.
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

    /// Returns when the timer is due, or `None` if it is due already or over.
    pub fn deadline(&self) -> Option<SystemTime> {
        self.keeper.table().time_of(self.number)
    }

    /// Whether the timer is over: its only run has begun, it has no further runs, it was cancelled
    /// or returned by a stop.
    pub fn is_over(&self) -> bool {
        self.keeper.table().is_over(self.number)
    }
}

debug! { impl[] WallTimer[] { deadline = |this| this.deadline() } }
