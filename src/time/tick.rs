//! A point in time, counted in ticks since the engine started.

use std::fmt;

/// Bits that a deadline has in an entry's state word.
pub const TICK_BITS: u32 = 54;

/// A tick: a point in time, as a count of tick widths since the engine's start.
///
/// Ticks are plain numbers that never wrap: whatever does not fit is [`Tick::NEVER`], which lies
/// after every time that a clock can show.
///
/// ```
/// use tickless::Tick;
/// use tickless::local::Wheel;
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
    /// The engine's start.
    ///
    /// ```
    /// # use tickless::Tick;
    /// assert_eq!(Tick::ZERO.get(), 0);
    /// ```
    pub const ZERO: Tick = Tick(0);
    /// Later than anything that a clock shows: what is due then never fires.
    ///
    /// ```
    /// # use tickless::Tick;
    /// let mut wheel = tickless::local::Wheel::default();
    /// wheel.insert(Tick::NEVER, "until it is cancelled");
    /// assert_eq!(wheel.advance(Tick::LAST, |_, _, _| {}), 0);
    /// ```
    pub const NEVER: Tick = Tick((1 << TICK_BITS) - 1);
    /// The last time that a clock shows; a clock that runs longer stands still here.
    ///
    /// ```
    /// # use tickless::Tick;
    /// assert_eq!(Tick::LAST.saturating_add(1), Tick::NEVER);
    /// ```
    pub const LAST: Tick = Tick(Self::NEVER.0 - 1);

    /// The tick number `count`, or [`Tick::NEVER`] where that does not fit.
    ///
    /// ```
    /// # use tickless::Tick;
    /// let timeout = std::time::Duration::from_millis(1_500);
    /// assert_eq!(Tick::new(timeout.as_millis() as u64), Tick::new(1_500));
    /// assert_eq!(Tick::new(u64::MAX), Tick::NEVER);
    /// ```
    #[inline]
    pub const fn new(count: u64) -> Tick {
        if count < Self::NEVER.0 { Tick(count) } else { Self::NEVER }
    }

    /// The tick number `count`, which fits.
    #[inline]
    pub(super) const fn in_range(count: u64) -> Tick {
        debug_assert!(count < Self::NEVER.0, "a tick out of range");
        Tick(count)
    }

    /// The number of ticks since the start.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Tick;
    /// let (now, wake_up) = (Tick::new(30), Tick::new(70));
    /// let sleep = Duration::from_millis(wake_up.get() - now.get());
    /// assert_eq!(sleep, Duration::from_millis(40));
    /// ```
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `ticks` earlier, but not before the start.
    ///
    /// ```
    /// # use tickless::Tick;
    /// let deadline = Tick::new(500);
    /// assert_eq!(deadline.saturating_sub(100), Tick::new(400), "to warn a little before");
    /// assert_eq!(deadline.saturating_sub(900), Tick::ZERO);
    /// ```
    #[inline]
    pub const fn saturating_sub(self, ticks: u64) -> Tick {
        Tick(self.0.saturating_sub(ticks))
    }

    /// `ticks` later, [`Tick::NEVER`] at most.
    ///
    /// ```
    /// # use tickless::Tick;
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
        assert_eq!(Tick::new(1 << TICK_BITS), Tick::NEVER);
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
