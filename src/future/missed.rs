//! What an interval does when its tick was not polled in time.

use std::time::{Duration, Instant};

/// What an [`Interval`](super::Interval) does after a missed tick. A tick is missed when it is
/// polled too late, because the task was still busy with the work of the previous tick.
///
/// With a period of 10 ms and a task that takes 25 ms after the first tick, ticks are returned at
/// these times, in milliseconds:
///
/// | tick | 1 | 2 | 3 | 4 | 5 | 6 |
/// |---|---|---|---|---|---|---|
/// | `Burst` | 0 | 25 | 25 | 30 | 40 | 50 |
/// | `Delay` | 0 | 25 | 35 | 45 | 55 | 65 |
/// | `Skip` | 0 | 25 | 30 | 40 | 50 | 60 |
///
/// ```
/// use std::time::Duration;
/// use tickless::future::MissedTickBehavior;
///
/// let mut heartbeat = tickless::interval(Duration::from_secs(10));
/// assert_eq!(heartbeat.missed_tick_behavior(), MissedTickBehavior::Burst);
/// heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// Ticks at once for each tick that was missed, and then continues as if none had been. There
    /// are as many ticks as periods. The default.
    #[default]
    Burst,
    /// The next tick is one period after the late tick. No two ticks are closer together than one
    /// period.
    Delay,
    /// Skips the missed ticks. The next tick is at the next multiple of the period from the start.
    Skip,
}

// === impl MissedTickBehavior ===

impl MissedTickBehavior {
    /// Returns when the next tick is due, after a missed tick that was due at `due` and is returned
    /// at `now`. `None`: never.
    pub(super) fn next(self, due: Instant, now: Instant, period: Duration) -> Option<Instant> {
        match self {
            MissedTickBehavior::Burst => due.checked_add(period),
            MissedTickBehavior::Delay => now.checked_add(period),
            MissedTickBehavior::Skip => {
                let late_ns = now.saturating_duration_since(due).as_nanos();
                // Less than the period, which may be longer than a `u64` of nanoseconds.
                let over_ns = late_ns % period.as_nanos();
                let secs = (over_ns / 1_000_000_000) as u64;
                let over = Duration::new(secs, (over_ns % 1_000_000_000) as u32);
                now.checked_add(period - over)
            }
        }
    }
}
