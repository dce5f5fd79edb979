//! A point in time, counted in ticks since the engine started.

use std::fmt;

/// Bits that a deadline has in an entry's state word.
pub const TICK_BITS: u32 = 54;

/// A tick: a point in time, as a count of tick widths since the engine's start.
///
/// Ticks are plain numbers that never wrap: whatever does not fit is [`Tick::NEVER`], which lies
/// after every time that a clock can show.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(u64);

impl Tick {
    /// The engine's start.
    pub const ZERO: Tick = Tick(0);
    /// Later than anything that a clock shows: what is due then never fires.
    pub const NEVER: Tick = Tick((1 << TICK_BITS) - 1);
    /// The last time that a clock shows; a clock that runs longer stands still here.
    pub const LAST: Tick = Tick(Self::NEVER.0 - 1);

    /// The tick number `count`, or [`Tick::NEVER`] where that does not fit.
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
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `ticks` earlier, but not before the start.
    #[inline]
    pub const fn saturating_sub(self, ticks: u64) -> Tick {
        Tick(self.0.saturating_sub(ticks))
    }

    /// `ticks` later, [`Tick::NEVER`] at most.
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
