//! A point in time, counted in ticks.

use core::fmt;

/// A tick: a point in time, as a count of tick widths since a start.
///
/// The wheels do not know how long a tick is. That is up to the code that drives them.
///
/// Ticks are plain numbers of [54 bits](Tick::BITS) that never wrap. A count that does not fit is
/// [`Tick::NEVER`], which lies after every time that a clock can show.
///
/// ```
/// use tickless_wheel::{Tick, Wheel};
///
/// // An event loop that counts in milliseconds.
/// let now = Tick::new(5_000);
/// let mut wheel = Wheel::with_start(Default::default(), now);
/// wheel.insert(now.saturating_add(30), "ping");
/// assert_eq!(wheel.next_expiration(), Some(Tick::new(5_030)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

impl Tick {
    /// The number of bits of a tick. With ticks of a millisecond, that is half a million years.
    pub const BITS: u32 = 54;
    /// The start.
    pub const ZERO: Tick = Tick(0);
    /// Later than every time that a clock shows: a timer with this deadline never fires.
    pub const NEVER: Tick = Tick((1 << Self::BITS) - 1);
    /// The last time that a clock shows. A clock that runs longer stands still here.
    pub const LAST: Tick = Tick(Self::NEVER.0 - 1);

    /// The tick number `count`, or [`Tick::NEVER`] if that does not fit.
    #[inline]
    pub const fn new(count: u64) -> Tick {
        if count < Self::NEVER.0 { Tick(count) } else { Self::NEVER }
    }

    /// The tick number `count`, which fits. For the engine, which has checked that already.
    #[doc(hidden)]
    #[inline]
    pub const fn in_range(count: u64) -> Tick {
        debug_assert!(count < Self::NEVER.0, "a tick out of range");
        Tick(count)
    }

    /// The number of ticks since the start.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The time `ticks` earlier, or the start if that would be before it.
    #[inline]
    pub const fn saturating_sub(self, ticks: u64) -> Tick {
        Tick(self.0.saturating_sub(ticks))
    }

    /// The time `ticks` later, or [`Tick::NEVER`] if that does not fit.
    ///
    /// ```
    /// # use tickless_wheel::Tick;
    /// let now = Tick::new(500);
    /// assert_eq!(now.saturating_add(30), Tick::new(530));
    /// assert_eq!(now.saturating_add(u64::MAX), Tick::NEVER);
    /// ```
    #[inline]
    pub const fn saturating_add(self, ticks: u64) -> Tick {
        Tick::new(self.0.saturating_add(ticks))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Tick::NEVER { f.write_str("never") } else { write!(f, "t{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_does_not_fit_is_never() {
        assert_eq!(Tick::new(u64::MAX), Tick::NEVER);
        assert_eq!(Tick::new(1 << Tick::BITS), Tick::NEVER);
        assert_eq!(Tick::new(Tick::LAST.get()), Tick::LAST);
        assert!(Tick::LAST < Tick::NEVER);
    }

    #[test]
    fn sums_stop_at_both_ends() {
        assert_eq!(Tick::LAST.saturating_add(5), Tick::NEVER);
        assert_eq!(Tick::NEVER.saturating_add(u64::MAX), Tick::NEVER);
        assert_eq!(Tick::new(3).saturating_sub(5), Tick::ZERO);
    }
}
