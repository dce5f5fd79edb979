//! From nanoseconds to ticks and back: the only place where the two meet. And the grid of a period:
//! the times that lie whole periods apart.
//!
//! *Invariant*: a deadline is rounded up and a clock reading down, so that an entry whose tick
//! has come is never early by the caller's clock.

use std::time::Duration;

use super::Tick;

/// The width of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    tick_ns: u64,
    /// 2^(64 + `shift`) / `tick_ns`, rounded up: replaces a division by a multiplication.
    reciprocal: u64,
    shift: u32,
    /// Below this, the multiplication gives the same result as the division, also after a tick less
    /// one was added; and ticks are in range.
    below_ns: u64,
}

impl Scale {
    /// Ticks of `tick`; `None` for a zero tick and for one of more than 2^64 ns (584 years).
    pub fn new(tick: Duration) -> Option<Scale> {
        let tick_ns = u64::try_from(tick.as_nanos()).ok().filter(|&ns| ns > 0)?;
        // Rounded up to a power of two, the tick is 2^(shift + 1).
        let Some(shift) = (u64::BITS - (tick_ns - 1).leading_zeros()).checked_sub(1) else {
            return Some(Scale { tick_ns, reciprocal: 0, shift: 0, below_ns: 0 });
        };
        // It fits, because the tick is more than 2^shift. It is too large by e / tick, where
        // e <= tick <= 2^(shift + 1); so for ns < 2^63 the quotient is too large by
        // ns * e / (tick * 2^(64 + shift)), less than 1 / tick, and the next whole number is at
        // least that far away.
        let reciprocal = ((1_u128 << (64 + shift)) / u128::from(tick_ns) + 1) as u64;
        let in_range_ns = Tick::LAST.get().saturating_mul(tick_ns);
        let below_ns = ((1_u64 << 63) + 1).saturating_sub(tick_ns).min(in_range_ns);
        Some(Scale { tick_ns, reciprocal, shift, below_ns })
    }

    /// The tick's width in nanoseconds.
    #[inline]
    pub const fn tick_ns(self) -> u64 {
        self.tick_ns
    }

    /// The last tick that has begun at `now_ns`: for clock readings.
    #[inline]
    pub fn floor(self, now_ns: u64) -> Tick {
        if now_ns < self.below_ns {
            return Tick::in_range(self.quotient(now_ns));
        }
        Tick::new(now_ns / self.tick_ns).min(Tick::LAST)
    }

    /// The first tick that begins at or after `deadline_ns`: for deadlines. `u64::MAX` stands for
    /// every time that did not fit, and becomes [`Tick::NEVER`].
    #[inline]
    pub fn ceil(self, deadline_ns: u64) -> Tick {
        if deadline_ns < self.below_ns {
            return Tick::in_range(self.quotient(deadline_ns + (self.tick_ns - 1)));
        }
        self.ceil_far(deadline_ns)
    }

    /// The first tick that begins `delay` or more after `now_ns`.
    #[inline]
    pub fn ceil_after(self, now_ns: u64, delay: Duration) -> Tick {
        match now_ns.checked_add(saturating_ns(delay)) {
            Some(deadline_ns) => self.ceil(deadline_ns),
            None => Tick::NEVER,
        }
    }

    /// The start of `tick`; `None` for [`Tick::NEVER`], and if it does not fit into 64 bits.
    #[inline]
    pub fn start_ns(self, tick: Tick) -> Option<u64> {
        if tick == Tick::NEVER { None } else { tick.get().checked_mul(self.tick_ns) }
    }

    /// `ns / tick_ns`, in a fraction of the time of a division.
    #[inline]
    fn quotient(self, ns: u64) -> u64 {
        debug_assert!(ns < 1 << 63, "{ns} is too far");
        let high = ((u128::from(ns) * u128::from(self.reciprocal)) >> 64) as u64;
        high >> self.shift
    }

    #[cold]
    fn ceil_far(self, deadline_ns: u64) -> Tick {
        match deadline_ns {
            u64::MAX => Tick::NEVER,
            _ => Tick::new(deadline_ns.div_ceil(self.tick_ns)),
        }
    }
}

/// `duration` in nanoseconds, or `u64::MAX` if it does not fit.
#[inline]
pub fn saturating_ns(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

/// The first time of the grid after `last_ns` that is not before `earliest_ns`, and how many times
/// of the grid between the two are skipped. The period is not zero. `u64::MAX` is never.
pub fn next_on_grid(last_ns: u64, period_ns: u64, earliest_ns: u64) -> (u64, u64) {
    let next_ns = last_ns.saturating_add(period_ns);
    let missed = earliest_ns.saturating_sub(next_ns).div_ceil(period_ns);
    (next_ns.saturating_add(missed.saturating_mul(period_ns)), missed)
}

/// How far away the next time of the grid is, `late` after one of its times. If that is a time of
/// the grid itself, the next one is a whole period away. The period is not zero.
pub fn left_of_period(period: Duration, late: Duration) -> Duration {
    // Less than the period, which may be longer than a `u64` of nanoseconds.
    let over_ns = late.as_nanos() % period.as_nanos();
    let secs = (over_ns / 1_000_000_000) as u64;
    period - Duration::new(secs, (over_ns % 1_000_000_000) as u32)
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
        // The end of time is a multiple of this tick.
        let scale = Scale::new(Duration::from_nanos(65_537)).unwrap();
        assert_eq!(scale.ceil(u64::MAX), Tick::NEVER);
        assert_eq!(scale.ceil(u64::MAX - 1), scale.floor(u64::MAX));
        assert_eq!(saturating_ns(Duration::MAX), u64::MAX);
    }

    #[test]
    fn dividing_by_multiplying_is_dividing() {
        let near = |n: u64| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let edges: Vec<u64> = (0..64)
            .flat_map(|bit| near(1 << bit))
            .chain([3, 7, 1_000, 1_000_000, 65_537, u64::MAX - 1])
            .collect();
        for &tick in edges.iter().filter(|&&tick| tick > 0) {
            let scale = Scale::new(Duration::from_nanos(tick)).unwrap();
            let multiples = edges.iter().flat_map(|n| near(tick.wrapping_mul(*n)));
            let limits = near(scale.below_ns);
            for ns in edges.iter().copied().chain(multiples).chain(limits) {
                assert_eq!(scale.floor(ns), Tick::new(ns / tick).min(Tick::LAST), "{ns} / {tick}");
                let ceil = Tick::new(ns.div_ceil(tick));
                assert_eq!(scale.ceil(ns), if ns < u64::MAX { ceil } else { Tick::NEVER });
            }
        }
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
