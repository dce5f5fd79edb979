//! From nanoseconds to ticks and back: the only place where the two meet.
//!
//! *Invariant*: a deadline is rounded up and a clock reading down, so that an entry whose tick
//! has come is never early by the caller's clock.

use std::time::Duration;

use super::Tick;

/// The width of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    tick_ns: u64,
}

impl Scale {
    /// Ticks of `tick`; `None` for a zero tick and for one of more than 2^64 ns (584 years).
    pub fn new(tick: Duration) -> Option<Scale> {
        match u64::try_from(tick.as_nanos()) {
            Ok(tick_ns) if tick_ns > 0 => Some(Scale { tick_ns }),
            _ => None,
        }
    }

    /// The tick's width in nanoseconds.
    #[inline]
    pub const fn tick_ns(self) -> u64 {
        self.tick_ns
    }

    /// The last tick that has begun at `now_ns`: what a clock shows.
    #[inline]
    pub fn floor(self, now_ns: u64) -> Tick {
        Tick::new(now_ns / self.tick_ns).min(Tick::LAST)
    }

    /// The first tick that begins at or after `deadline_ns`: what a deadline becomes. `u64::MAX`
    /// stands for all that did not fit, and is never.
    #[inline]
    pub fn ceil(self, deadline_ns: u64) -> Tick {
        if deadline_ns == u64::MAX {
            return Tick::NEVER;
        }
        Tick::new(deadline_ns.div_ceil(self.tick_ns))
    }

    /// Where `tick` begins; `None` for [`Tick::NEVER`] and for what 64 bits cannot hold.
    #[inline]
    pub fn start_ns(self, tick: Tick) -> Option<u64> {
        if tick == Tick::NEVER { None } else { tick.get().checked_mul(self.tick_ns) }
    }
}

/// `duration` in nanoseconds, `u64::MAX` where it does not fit.
#[inline]
pub fn saturating_ns(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_rounded_up_and_a_reading_down() {
        let scale = Scale::new(Duration::from_millis(1)).unwrap();
        assert_eq!(scale.ceil(1), Tick::new(1));
        assert_eq!(scale.ceil(1_000_000), Tick::new(1));
        assert_eq!(scale.ceil(1_000_001), Tick::new(2));
        assert_eq!(scale.floor(999_999), Tick::ZERO);
        assert_eq!(scale.floor(1_999_999), Tick::new(1));
    }

    #[test]
    fn the_far_end_is_never_for_deadlines_and_last_for_clocks() {
        let scale = Scale::new(Duration::from_nanos(1)).unwrap();
        assert_eq!(scale.ceil(u64::MAX), Tick::NEVER);
        assert_eq!(scale.floor(u64::MAX), Tick::LAST);
        assert_eq!(scale.start_ns(Tick::NEVER), None);
        // A tick that the end of time is a multiple of.
        let scale = Scale::new(Duration::from_nanos(65_537)).unwrap();
        assert_eq!(scale.ceil(u64::MAX), Tick::NEVER);
        assert_eq!(scale.ceil(u64::MAX - 1), scale.floor(u64::MAX));
        assert_eq!(saturating_ns(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_tick_has_a_width_that_fits() {
        assert_eq!(Scale::new(Duration::ZERO), None);
        assert_eq!(Scale::new(Duration::MAX), None);
        let hour = Scale::new(Duration::from_secs(3600)).unwrap();
        assert_eq!(hour.start_ns(Tick::new(2)), Some(7_200_000_000_000));
        assert_eq!(hour.start_ns(Tick::LAST), None);
    }
}
