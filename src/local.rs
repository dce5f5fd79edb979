//! Wheels for one thread, without clock, threads or atomics: the crate `tickless-wheel`.
//!
//! They are for event loops that own all their timers, read the clock themselves and only ask
//! which timers have expired. There are two, of the two classic designs: [`Wheel`], a hierarchy of
//! rings, and [`HashedWheel`], one ring that long timers go round several times. [`TimingWheel`]
//! compares their costs; when in doubt, take `Wheel`.
//!
//! Programs that need nothing else of this crate can depend on `tickless-wheel` alone, which works
//! without the standard library. Its items are the same as those here.
//!
//! ```
//! use tickless::local::{Tick, Wheel};
//!
//! let mut wheel = Wheel::default();
//! let ping = wheel.insert(Tick::new(30), "ping");
//! assert!(wheel.reset(ping, Tick::new(50)));
//!
//! let wake_up = wheel.next_expiration();
//! assert_eq!(wake_up, Some(Tick::new(50)));
//! assert_eq!(wheel.advance(Tick::new(50), |_key, _deadline, what| assert_eq!(what, "ping")), 1);
//! ```
//!
//! A loop that has deadlines as instants converts them by [`Ticks`].

use std::time::{Duration, Instant};

#[doc(inline)]
pub use tickless_wheel::{
    Drain, Geometry, GeometryError, HashedWheel, Iter, Key, MAX_LEVELS, MAX_SLOTS, Place, Tick,
    TimingWheel, Wheel,
};

use crate::time::{Scale, saturating_ns};

/// Ticks of one length, counted from an instant: for a loop that reads a clock, and a wheel that
/// has none. Deadlines are rounded up and the present down, so no timer is early.
///
/// ```
/// use std::thread;
/// use std::time::{Duration, Instant};
/// use tickless::local::{Ticks, Wheel};
///
/// let ticks = Ticks::new(Duration::from_millis(1), Instant::now()).expect("a length");
/// let mut wheel = Wheel::default();
/// let deadline = Instant::now() + Duration::from_millis(5);
/// wheel.insert(ticks.of_deadline(deadline), "ping");
/// // A loop with other events waits for those meanwhile.
/// while let Some(wait) = ticks.wait(wheel.next_expiration(), Instant::now()) {
///     thread::sleep(wait);
///     wheel.advance(ticks.at(Instant::now()), |_key, _deadline, what| assert_eq!(what, "ping"));
/// }
/// assert!(Instant::now() >= deadline);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    scale: Scale,
    start: Instant,
}

// === impl Ticks ===

impl Ticks {
    /// Ticks of the length `tick`, the first of which begins at `start`. `None`: the length is zero
    /// or more than 584 years.
    pub fn new(tick: Duration, start: Instant) -> Option<Ticks> {
        Some(Ticks { scale: Scale::new(tick)?, start })
    }

    /// The tick that it is at `now`: to advance a wheel to.
    pub fn at(&self, now: Instant) -> Tick {
        self.scale.floor(self.ns(now))
    }

    /// The first tick that begins at `deadline` or later: for a timer that is due then. A deadline
    /// that is too far away is [never](Tick::NEVER).
    pub fn of_deadline(&self, deadline: Instant) -> Tick {
        self.scale.ceil(self.ns(deadline))
    }

    /// When `tick` begins. `None`: never.
    pub fn start_of(&self, tick: Tick) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(self.scale.start_ns(tick)?))
    }

    /// How long a loop may wait for other events at `now`, if `next` is when its wheel expires
    /// next. `None`: without limit, as the calls that wait for events have it.
    pub fn wait(&self, next: Option<Tick>, now: Instant) -> Option<Duration> {
        Some(self.start_of(next?)?.saturating_duration_since(now))
    }

    /// The time since the start, 584 years at most.
    fn ns(&self, at: Instant) -> u64 {
        saturating_ns(at.saturating_duration_since(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_rounded_up_and_the_present_down() {
        let (start, us) = (Instant::now(), Duration::from_micros);
        let ticks = Ticks::new(us(100), start).unwrap();
        for (at, before, after) in [(0, 0, 0), (1, 0, 1), (99, 0, 1), (100, 1, 1), (101, 1, 2)] {
            assert_eq!(ticks.at(start + us(at)), Tick::new(before));
            assert_eq!(ticks.of_deadline(start + us(at)), Tick::new(after));
        }
        assert_eq!(ticks.start_of(Tick::new(3)), Some(start + us(300)));
        assert_eq!(ticks.wait(Some(Tick::new(3)), start + us(120)), Some(us(180)));
        assert_eq!(ticks.wait(Some(Tick::new(3)), start + us(320)), Some(Duration::ZERO));
        assert_eq!((ticks.wait(Some(Tick::NEVER), start), ticks.wait(None, start)), (None, None));
    }

    #[test]
    fn what_lies_before_the_start_is_at_the_start_and_what_is_too_far_away_is_never() {
        let (start, day) = (Instant::now(), Duration::from_secs(86_400));
        let ticks = Ticks::new(Duration::from_nanos(1), start + day).unwrap();
        assert_eq!((ticks.at(start), ticks.of_deadline(start)), (Tick::new(0), Tick::new(0)));
        if let Some(far) = start.checked_add(day * 365 * 1000) {
            assert_eq!(ticks.of_deadline(far), Tick::NEVER);
        }
        assert!(Ticks::new(Duration::ZERO, start).is_none());
        assert!(Ticks::new(Duration::MAX, start).is_none());
    }
}
