//! The clock that instances share: the hub's, as far as an instance knows it.
//!
//! A timer is due by this clock, so it does not matter what an instance's own wall clock shows, and
//! a timer that another instance takes over is due at the same moment as before. Each renewal of
//! the leases reads the hub's clock. Between two readings, the instance's monotonic clock goes
//! on from there.
//!
//! *Invariant*: what this shows is ahead of the hub's clock by no more than the two clocks
//! have moved against each other since the last reading. The hub's clock was read at some time
//! between request and reply, and is taken to have been read when the reply came.
//!
//! *Tested by*: here, and `tests/durable/postgres/`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::hub::Reading;

/// By how much faster than a monotonic clock a wall clock runs at most while it is set right
/// slowly.
const SLEW: u32 = 2000;

/// What the hub's clock is ahead of this machine's since it was started, in microseconds.
#[derive(Debug)]
pub(super) struct SharedClock {
    known: Mutex<Known>,
    /// For tests which show that they would notice.
    is_own: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    ahead_us: i64,
    /// When it was read.
    at: Duration,
}

/// The time since this machine was started, with the time in which it was suspended: a lease runs
/// out in that time, too.
#[cfg(target_os = "linux")]
pub(super) fn since_start() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The time since some moment of this process.
#[cfg(not(target_os = "linux"))]
pub(super) fn since_start() -> Duration {
    use std::{sync::OnceLock, time::Instant};
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    BEGINNING.get_or_init(Instant::now).elapsed()
}

// === impl SharedClock ===

impl SharedClock {
    /// A clock from its first reading on: see [`read`](SharedClock::read).
    pub(super) fn new(first: Reading, is_own: bool) -> SharedClock {
        let Reading { received, shows_us, .. } = first;
        let known = Known { ahead_us: shows_us - micros(received), at: received };
        SharedClock { known: Mutex::new(known), is_own }
    }

    /// The hub's clock showed that, some time between these two.
    pub(super) fn read(&self, reading: Reading) {
        let Reading { sent, received, shows_us } = reading;
        let (least, most) = (shows_us - micros(received), shows_us - micros(sent));
        let mut known = self.known();
        let age = received.saturating_sub(known.at);
        // A reply that took long tells less than a quick one before it, until that is too old.
        let before_us = known.ahead_us - micros(age / SLEW);
        // The clock was set back if it is not even that far ahead.
        let is_set_back = known.ahead_us > most;
        let ahead_us = if is_set_back { least } else { before_us.max(least) };
        *known = Known { ahead_us, at: received };
    }

    pub(super) fn now(&self) -> SystemTime {
        if self.is_own {
            return SystemTime::now();
        }
        let shows_us = self.known().ahead_us + micros(since_start());
        SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(shows_us).unwrap_or(0))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reading(sent_s: u64, received_s: u64, shows_us: i64) -> Reading {
        let sent = Duration::from_secs(sent_s);
        Reading { sent, received: Duration::from_secs(received_s), shows_us }
    }

    fn ahead_us(clock: &SharedClock) -> i64 {
        clock.known().ahead_us
    }

    #[test]
    fn a_clock_is_never_ahead_of_what_a_reply_has_shown() {
        let clock = SharedClock::new(reading(10, 10, 1_000_000_000), false);
        assert_eq!(ahead_us(&clock), 990_000_000);
        // A slow reply, from which it could be as early as 988 s ahead, changes little.
        clock.read(reading(20, 22, 1_010_500_000));
        assert_eq!(ahead_us(&clock), 990_000_000 - 6000);
        // A quick one says that it is a second more.
        clock.read(reading(30, 30, 1_021_000_000));
        assert_eq!(ahead_us(&clock), 991_000_000);
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let clock = SharedClock::new(reading(10, 10, 1_000_000_000), false);
        clock.read(reading(20, 21, 910_000_000));
        assert_eq!(ahead_us(&clock), 889_000_000);
        clock.read(reading(30, 31, 2_000_000_000));
        assert_eq!(ahead_us(&clock), 1_969_000_000);
    }
}
