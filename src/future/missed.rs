//! What an interval does when nobody asked for its tick in time.

use std::time::{Duration, Instant};

/// What an [`Interval`](super::Interval) does when a tick was missed: when it was asked for too
/// late, because the task was busy with what it did at the one before.
///
/// With a period of 10 ms and a task that takes 25 ms after the first tick, ticks are handed out at
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
    /// Ticks at once as often as ticks were missed, and then as if none had been: as many ticks as
    /// periods. The default.
    #[default]
    Burst,
    /// Ticks next one period after the late tick: no two ticks are closer together than that.
    Delay,
    /// Ticks next when one would have been due after now: what was missed is left out, and ticks
    /// stay multiples of the period from the start.
    Skip,
}

// === impl MissedTickBehavior ===

impl MissedTickBehavior {
    /// When the tick after the one that was due at `due` is due, if that one is handed out `now`
    /// and counts as missed. `None`: never.
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
