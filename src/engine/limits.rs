//! The settings for the limit on pending timers.
//!
//! *Owner*: the builder; the limit itself is in `memory`.
//!
//! *Tested by*: `tests/suite/engine/limits.rs`, `tests/suite/future/limits.rs`.

use crate::dispatch::{Kind, Task};

use super::Builder;

impl Builder {
    /// Sets how many timers may be pending at a time, over all shards. Beyond that, scheduling
    /// fails with [`ScheduleReason::Full`](crate::ScheduleReason::Full). Default: no limit, which
    /// costs nothing; a limit costs two atomic updates of a shared counter per timer.
    ///
    /// *The limit refuses what is new, to the caller who can take it back. What was accepted it
    /// never ends or puts off.* So what repeats finds room for each next timer, and so do the
    /// limits of attempts and the timers of [`wall`](crate::wall) that are due: these come on top,
    /// one for each such thing at most. So does a batch that is being handed over: it has made room
    /// already, so that its tasks can schedule others, and up to 255 timers per shard wait behind
    /// the task that runs.
    ///
    /// The timers of [`Sleep`](crate::future::Sleep) and of all that is built on it (a `Timeout`,
    /// an `Interval`, a `DelayQueue`, an adapter's) do not count. A future that is refused could
    /// only panic or give up, and there are no more such timers than futures that wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).max_pending(1).build()?;
    /// let lease = engine.schedule(Duration::from_secs(60), || println!("it ends"))?;
    /// assert!(engine.schedule_detached(Duration::ZERO, || ()).unwrap_err().is_full());
    /// let mut sleep = engine.sleep(Duration::from_secs(1));
    /// let poll = futures_util::FutureExt::now_or_never(sleep.wait());
    /// assert!(poll.is_none(), "it waits");
    /// # lease.cancel();
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn max_pending(mut self, max_pending: u64) -> Builder {
        self.max_pending = Some(max_pending);
        self
    }
}

/// Whether a payload is that of a sleep's timer.
pub(super) fn is_exempt<T: 'static>(payload: &T) -> bool {
    Task::kind_of(payload) == Kind::Wake
}
