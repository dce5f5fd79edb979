//! Placement arithmetic: which bucket of which level holds a deadline.
//!
//! A level is a ring of `slots` buckets. A bucket of level *n* (counted from 1) is `reach^(n-1)`
//! ticks wide, and an entry is filed on the lowest level on which its deadline lies fewer than
//! `reach` buckets ahead of the time from which one looks. With `slots` larger than `reach`, two
//! parties that look from times up to `slots - reach` buckets apart still never mean different
//! rounds of the ring by one slot. `slots == reach` is the classic wheel.
//!
//! *Invariants*: `place(d, now).expiration <= max(d, now)`, so a bucket is opened before
//! anything in it is late; and an entry whose deadline lies inside a bucket's span is filed on
//! a lower level when one looks from that bucket's start, so every cascade makes progress.
//!
//! *Tested by*: `time/geometry/tests.rs`, `tests/golden_trace.rs`, `fuzz/`.

use std::fmt;

use super::{TICK_BITS, Tick};

/// Levels that the widest range of deadlines needs at the smallest reach.
pub const MAX_LEVELS: usize = TICK_BITS as usize;

/// The most slots that a level may have.
///
/// ```
/// use tickless::{Geometry, MAX_SLOTS};
///
/// assert!(Geometry::new(MAX_SLOTS, 2).is_ok());
/// assert!(Geometry::new(MAX_SLOTS + 1, 2).is_err());
/// ```
pub const MAX_SLOTS: u32 = 1 << 20;

/// Slots, reach, and the width of each level's buckets.
///
/// ```
/// use tickless::{Geometry, Tick};
/// use tickless::local::Wheel;
///
/// // With ticks of a millisecond: buckets of 1 ms, of half a second, of four minutes, and so on.
/// let geometry = Geometry::new(512, 512)?;
/// assert_eq!([1, 2, 3].map(|level| geometry.width(level)), [1, 512, 262_144]);
/// let mut wheel = Wheel::new(geometry);
/// wheel.insert(Tick::new(30_000), "half a minute");
/// # Ok::<(), tickless::GeometryError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    reach: u32,
    levels: u8,
    /// `log2(reach)` where that is whole: widths are then shifts.
    reach_shift: Option<u8>,
    /// Width of each level's buckets in ticks; only the first `levels` count.
    widths: [u64; MAX_LEVELS],
    /// By the bits of a distance: the lowest level that could reach so far. Starting from there
    /// saves `place` a branch per level that no predictor can foresee.
    floors: [u8; MAX_LEVELS + 1],
}

/// A bucket of a wheel: level (from 1), slot, and the start of the span that it is meant for.
///
/// ```
/// use tickless::{Geometry, Place, Tick};
///
/// // A hundred ticks ahead is beyond the reach of level 1: the bucket from 96 on holds it.
/// let place = Geometry::default().place(Tick::new(100), Tick::ZERO);
/// assert_eq!(place, Place { level: 2, slot: 3, expiration: Tick::new(96) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The level, counted from 1.
    pub level: u8,
    /// The bucket's index on its level.
    pub slot: u32,
    /// The start of the bucket's span; a multiple of the level's width.
    pub expiration: Tick,
}

/// Why a geometry was refused.
///
/// ```
/// use tickless::{Geometry, GeometryError};
///
/// assert_eq!(Geometry::new(1, 1), Err(GeometryError::Slots { slots: 1 }));
/// let error = Geometry::new(64, 100).unwrap_err();
/// assert_eq!(error.to_string(), "reach must be between 2 and slots (64), got 100");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// Fewer than 2 slots or more than [`MAX_SLOTS`].
    Slots {
        /// What was asked for.
        slots: u32,
    },
    /// A reach below 2 (levels would not widen) or above the number of slots.
    Reach {
        /// What was asked for.
        reach: u32,
        /// The slots that it was asked for with.
        slots: u32,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            GeometryError::Slots { slots } => {
                write!(f, "slots must be between 2 and {MAX_SLOTS}, got {slots}")
            }
            GeometryError::Reach { reach, slots } => {
                write!(f, "reach must be between 2 and slots ({slots}), got {reach}")
            }
        }
    }
}

impl std::error::Error for GeometryError {}

// === impl Geometry ===

impl Geometry {
    /// Slots per level unless said otherwise.
    ///
    /// ```
    /// # use tickless::Geometry;
    /// assert_eq!(Geometry::default().slots(), Geometry::DEFAULT_SLOTS);
    /// ```
    pub const DEFAULT_SLOTS: u32 = 64;
    /// Reach unless said otherwise: half the slots, so that a reaper which files from a bucket's
    /// start and a producer which files from the present never collide on a slot.
    ///
    /// ```
    /// # use tickless::Geometry;
    /// assert_eq!(Geometry::default().reach(), Geometry::DEFAULT_REACH);
    /// ```
    pub const DEFAULT_REACH: u32 = 32;

    /// A wheel of `slots` buckets per level, of which an entry may be filed `reach` ahead.
    ///
    /// ```
    /// # use tickless::Geometry;
    /// let classic = Geometry::new(20, 20)?;
    /// assert_eq!([classic.width(1), classic.width(2), classic.width(3)], [1, 20, 400]);
    /// assert!(Geometry::new(20, 21).is_err(), "it would lap itself");
    /// # Ok::<(), tickless::GeometryError>(())
    /// ```
    ///
    /// # Errors
    /// `slots` outside `2..=MAX_SLOTS`, or `reach` outside `2..=slots`.
    pub fn new(slots: u32, reach: u32) -> Result<Geometry, GeometryError> {
        if !(2..=MAX_SLOTS).contains(&slots) {
            return Err(GeometryError::Slots { slots });
        }
        if !(2..=slots).contains(&reach) {
            return Err(GeometryError::Reach { reach, slots });
        }
        let mut widths = [0; MAX_LEVELS];
        let mut width = 1_u64;
        let mut levels = 0;
        while width <= Tick::NEVER.get() {
            widths[levels] = width;
            levels += 1;
            width = width.saturating_mul(u64::from(reach));
        }
        let mut floors = [1; MAX_LEVELS + 1];
        for (bits, floor) in floors.iter_mut().enumerate().skip(1) {
            let least = 1_u64 << (bits - 1);
            *floor =
                widths[..levels].iter().rposition(|width| *width <= least).unwrap_or(0) as u8 + 1;
        }
        let reach_shift = reach.is_power_of_two().then(|| reach.trailing_zeros() as u8);
        Ok(Geometry { slots, reach, levels: levels as u8, reach_shift, widths, floors })
    }

    /// Keeps only the lowest `levels`: the wheel of a model needs no room for the end of time.
    /// For this repository's models alone.
    #[doc(hidden)]
    #[must_use]
    pub fn lowest(mut self, levels: u8) -> Geometry {
        self.levels = levels.min(self.levels);
        self
    }

    /// Buckets per level.
    ///
    /// ```
    /// # use tickless::Geometry;
    /// assert_eq!(Geometry::new(64, 16)?.slots(), 64);
    /// # Ok::<(), tickless::GeometryError>(())
    /// ```
    #[inline]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// How many buckets ahead an entry may be filed.
    ///
    /// ```
    /// # use tickless::Geometry;
    /// assert_eq!(Geometry::new(64, 16)?.reach(), 16);
    /// # Ok::<(), tickless::GeometryError>(())
    /// ```
    #[inline]
    pub const fn reach(&self) -> u32 {
        self.reach
    }

    /// Levels that cover every deadline up to [`Tick::NEVER`].
    ///
    /// ```
    /// # use tickless::Geometry;
    /// // What reaches further needs fewer levels, and each is one move less for a distant timer.
    /// assert_eq!(Geometry::new(64, 32)?.levels(), 11);
    /// assert_eq!(Geometry::new(512, 512)?.levels(), 6);
    /// # Ok::<(), tickless::GeometryError>(())
    /// ```
    #[inline]
    pub const fn levels(&self) -> u8 {
        self.levels
    }

    /// Width in ticks of a bucket of `level`, from 1 to [`levels`](Geometry::levels): the
    /// `level - 1`th power of the reach.
    ///
    /// ```
    /// # use tickless::Geometry;
    /// let geometry = Geometry::new(64, 32)?;
    /// assert_eq!(geometry.width(1), 1);
    /// assert_eq!(geometry.width(3), 32 * 32);
    /// # Ok::<(), tickless::GeometryError>(())
    /// ```
    ///
    /// # Panics
    /// `level` is zero or above 54, of which no wheel has more.
    #[inline]
    pub const fn width(&self, level: u8) -> u64 {
        self.widths[level as usize - 1]
    }

    /// The bucket for `deadline`, seen from `from`. What is due is filed at `from` itself.
    ///
    /// ```
    /// # use tickless::{Geometry, Tick};
    /// let (geometry, now) = (Geometry::default(), Tick::new(1_000));
    /// let soon = geometry.place(Tick::new(1_020), now);
    /// assert_eq!((soon.level, soon.expiration), (1, Tick::new(1_020)));
    /// // Further away, it is filed among others, and comes down a level at 1472.
    /// let later = geometry.place(Tick::new(1_500), now);
    /// assert_eq!((later.level, later.expiration), (2, Tick::new(1_472)));
    /// ```
    #[inline]
    pub fn place(&self, deadline: Tick, from: Tick) -> Place {
        let deadline = deadline.max(from).get();
        let from = from.get();
        let bits = u64::BITS - ((deadline - from) | 1).leading_zeros();
        let mut level = self.floors[bits as usize];
        loop {
            let bucket = self.bucket(deadline, level);
            let ahead = bucket - self.bucket(from, level);
            if ahead < u64::from(self.reach) || level == self.levels {
                debug_assert!(ahead < u64::from(self.reach), "the top level reaches everything");
                return self.numbered(bucket, level);
            }
            level += 1;
        }
    }

    /// Of the ticks from `first` to `last`, the one that a timer had best be due at, seen from
    /// `from`; `first` where `last` is before it.
    ///
    /// It is one at which the widest bucket opens that opens then at all: whoever is filed there
    /// is cascaded no further down, and shares the wake-up. Of several such, the one whose bucket
    /// has the roundest number, so that windows which overlap tend to meet; but the first, if that
    /// saves a cascade because the other is a level further away.
    ///
    /// ```
    /// # use tickless::{Tick, local::Wheel};
    /// let mut wheel = Wheel::default();
    /// let (first, last) = (Tick::new(1_000), Tick::new(1_100));
    /// let best = wheel.geometry().best_within(first, last, wheel.now());
    /// assert_eq!(best, Tick::new(1_024));
    /// wheel.insert(best, "a cache that may be stale for a while");
    /// assert_eq!(wheel.next_expiration(), Some(best), "it stays where it was filed until then");
    /// ```
    pub fn best_within(&self, first: Tick, last: Tick, from: Tick) -> Tick {
        if last <= first || first == Tick::NEVER {
            return first;
        }
        let opens = |level| {
            let width = self.width(level);
            // The numbers of the buckets that open in the window.
            let (lowest, highest) = (first.get().div_ceil(width), last.get() / width);
            (lowest <= highest).then_some((width, lowest, highest))
        };
        let widest = (1..=self.levels).rev().find_map(opens);
        let (width, lowest, highest) = widest.expect("a bucket of level 1 opens at each tick");
        let [lowest, roundest] =
            [lowest, roundest(lowest, highest)].map(|number| Tick::new(number * width));
        let stays = |at: Tick| self.place(at, from).expiration == at;
        if !stays(roundest) && stays(lowest) { lowest } else { roundest }
    }

    /// The bucket of `level` whose span holds `at`. For the wheels, and this repository's models of
    /// them.
    #[doc(hidden)]
    #[inline]
    pub fn place_on(&self, at: Tick, level: u8) -> Place {
        self.numbered(self.bucket(at.get(), level), level)
    }

    /// The bucket of `level` with the number `bucket`.
    #[inline]
    fn numbered(&self, bucket: u64, level: u8) -> Place {
        let slots = u64::from(self.slots);
        let slot = if self.slots.is_power_of_two() { bucket & (slots - 1) } else { bucket % slots };
        Place { level, slot: slot as u32, expiration: Tick::new(bucket * self.width(level)) }
    }

    /// The number of the bucket of `level` that holds `at`, counted from the engine's start.
    #[inline]
    fn bucket(&self, at: u64, level: u8) -> u64 {
        match self.reach_shift {
            Some(shift) => at >> (u32::from(shift) * u32::from(level - 1)),
            None => at / self.width(level),
        }
    }
}

/// Of the numbers from `from` to `to`, the one with the most zeros at its end.
fn roundest(from: u64, to: u64) -> u64 {
    // The bits above the highest in which the two differ are those of every number between them;
    // `to` without the bits below it is one of these. Zero is the roundest of all.
    match from.checked_sub(1) {
        None => 0,
        Some(before) => to & (u64::MAX << (before ^ to).ilog2()),
    }
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry::new(Self::DEFAULT_SLOTS, Self::DEFAULT_REACH).expect("the defaults are valid")
    }
}

impl fmt::Debug for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Geometry")
            .field("slots", &self.slots)
            .field("reach", &self.reach)
            .field("levels", &self.levels)
            .finish()
    }
}

#[cfg(test)]
mod tests;
