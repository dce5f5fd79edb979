//! The settings for the limit on pending timers.
//!
//! *Owner*: the builder; the limit itself is in `memory`.
//!
//! *Tested by*: `tests/limits.rs`, `tests/limits_of_sleeps.rs`.

use std::any::{Any, TypeId};

use crate::dispatch::Task;
use crate::memory::Shared;

use super::Builder;

impl Builder {
    /// Sets how many timers may be pending at a time, over all shards. Beyond that, scheduling
    /// fails with [`ScheduleReason::Full`](crate::ScheduleReason::Full). Default: no limit, which
    /// costs nothing; a limit costs two atomic updates of a shared counter per timer.
    ///
    /// The timers of [sleeps](crate::future), which a task awaits, do not count, unless
    /// [`count_sleeps`](Builder::count_sleeps) says so.
    pub fn max_pending(mut self, max_pending: u64) -> Builder {
        self.max_pending = Some(max_pending);
        self
    }

    /// Sets whether the timers of [`Sleep`](crate::future::Sleep) and of all that is built on it (a
    /// `Timeout`, an `Interval`, a `DelayQueue`, an adapter's) count for
    /// [`max_pending`](Builder::max_pending). Default: they do not. A future that is refused could
    /// only panic or give up, and there are no more such timers than futures that wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let builder = Engine::builder().manual_clock(&ManualClock::new()).max_pending(1);
    /// for (count_sleeps, waits) in [(false, true), (true, false)] {
    ///     let engine = builder.clone().count_sleeps(count_sleeps).build()?;
    ///     let lease = engine.schedule(Duration::from_secs(60), || println!("it ends"))?;
    ///     let mut sleep = engine.sleep(Duration::from_secs(1));
    ///     let poll = futures_util::FutureExt::now_or_never(sleep.wait());
    ///     assert_eq!(poll.is_none(), waits);
    ///     # lease.cancel();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn count_sleeps(mut self, count_sleeps: bool) -> Builder {
        self.count_sleeps = count_sleeps;
        self
    }

    /// Applies the setting for sleeps to what an engine's shards share.
    pub(super) fn limit<T: 'static>(&self, shared: Shared<T>) -> Shared<T> {
        // Sleeps are closures.
        let has_sleeps = TypeId::of::<T>() == TypeId::of::<Task>();
        if has_sleeps && !self.count_sleeps { shared.with_exempt(is_exempt) } else { shared }
    }
}

/// Whether a payload is that of a sleep's timer.
pub(super) fn is_exempt<T: 'static>(payload: &T) -> bool {
    (payload as &dyn Any).downcast_ref().is_some_and(Task::is_exempt)
}
