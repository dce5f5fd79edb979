//! Placement arithmetic: which bucket of which level holds a deadline.
//!
//! A level is a ring of `slots` buckets. A bucket of level *n* (counted from 1) is `reach^(n-1)`
//! ticks wide. An entry is filed on the lowest level on which its deadline lies fewer than `reach`
//! buckets ahead of the time from which it is filed. With `slots` larger than `reach`, two parties
//! that file from times up to `slots - reach` buckets apart never mean different rounds of the
//! ring by one slot. `slots == reach` is the classic wheel.
//!
//! Where slots and reach are powers of two, as is usual, placement is one look-up in a table, two
//! shifts and a mask ([`Geometry::direct`]).
//!
//! *Invariants*: `place(d, now).expiration <= max(d, now)`, so a bucket is opened before
//! anything in it is late. An entry whose deadline lies inside a bucket's span is filed on a lower
//! level when it is filed from that bucket's start, so every cascade makes progress.
//!
//! *Tested by*: `crates/wheel/src/geometry/tests.rs`, `tests/golden_placement.rs`,
//! `tests/oracles/golden_trace.rs`, `fuzz/`.

use core::fmt;

use crate::{GeometryError, Tick};

/// The most levels that a wheel may have: those of the smallest reach, 2.
pub const MAX_LEVELS: usize = Tick::BITS as usize;

/// The most slots that a level may have.
pub const MAX_SLOTS: u32 = 1 << 20;

/// Positions that the highest bit of a distance may have.
const FLOORS: usize = u64::BITS as usize;

/// Slots, reach, and the width of each level's buckets.
///
/// ```
/// use tickless_wheel::{Geometry, Tick, Wheel};
///
/// // With ticks of a millisecond: buckets of 1 ms, of half a second, of four minutes, and so on.
/// let geometry = Geometry::new(512, 512)?;
/// assert_eq!([1, 2, 3].map(|level| geometry.width(level)), [1, 512, 262_144]);
/// let mut wheel = Wheel::new(geometry);
/// wheel.insert(Tick::new(30_000), "half a minute");
/// # Ok::<(), tickless_wheel::GeometryError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    reach: u32,
    levels: u8,
    /// `log2(reach)` where that is whole: widths are then shifts.
    reach_shift: Option<u8>,
    /// The reach where slots and reach are powers of two, or else zero: nothing is within that.
    direct_reach: u64,
    /// The bits of a bucket's number that are its slot, where slots are a power of two, or zero.
    slot_mask: u32,
    /// The same for the reach.
    reach_mask: u32,
    /// Width of each level's buckets in ticks; only the first `levels` count.
    widths: [u64; MAX_LEVELS],
    /// By the position of the highest bit of a distance: the lowest level that could reach so far.
    /// A search that starts there has no branch per level that no predictor can foresee.
    floors: [Floor; FLOORS],
}

/// The lowest level that could reach so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    pub(crate) level: u8,
    /// The width of the level's buckets, as a power of two, where it is one.
    shift: u8,
}

/// A bucket of a wheel: its level (from 1), its slot, and the start of its span.
///
/// ```
/// use tickless_wheel::{Geometry, Place, Tick};
///
/// // A hundred ticks ahead is beyond the reach of level 1: the bucket from 96 on holds it.
/// let place = Geometry::default().place(Tick::new(100), Tick::ZERO);
/// assert_eq!(place, Place { level: 2, slot: 3, expiration: Tick::new(96) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The level, counted from 1.
    pub level: u8,
    /// The bucket's index on its level.
    pub slot: u32,
    /// The start of the bucket's span; a multiple of the level's width.
    pub expiration: Tick,
}

// === impl Geometry ===

impl Geometry {
    /// Slots per level unless set otherwise.
    pub const DEFAULT_SLOTS: u32 = 64;
    /// Reach unless set otherwise: half the slots. A reaper that files from a bucket's start and a
    /// producer that files from the present then never collide on a slot.
    pub const DEFAULT_REACH: u32 = 32;

    /// A wheel of `slots` buckets per level, of which an entry may be filed `reach` ahead.
    ///
    /// ```
    /// # use tickless_wheel::Geometry;
    /// let classic = Geometry::new(20, 20)?;
    /// assert_eq!([classic.width(1), classic.width(2), classic.width(3)], [1, 20, 400]);
    /// assert!(Geometry::new(20, 21).is_err(), "it would lap itself");
    /// # Ok::<(), tickless_wheel::GeometryError>(())
    /// ```
    ///
    /// # Errors
    /// `slots` outside `2..=MAX_SLOTS`, or `reach` outside `2..=slots`.
    pub const fn new(slots: u32, reach: u32) -> Result<Geometry, GeometryError> {
        if slots < 2 || slots > MAX_SLOTS {
            return Err(GeometryError::Slots { slots });
        }
        if reach < 2 || reach > slots {
            return Err(GeometryError::Reach { reach, slots });
        }
        let mut widths = [0; MAX_LEVELS];
        let mut width = 1_u64;
        let mut levels = 0;
        while width <= Tick::NEVER.get() {
            widths[levels] = width;
            levels += 1;
            width = width.saturating_mul(reach as u64);
        }
        let mut floors = [Floor { level: 1, shift: 0 }; FLOORS];
        let (mut bit, mut level) = (0, 1);
        while bit < FLOORS {
            while level < levels && widths[level] <= 1 << bit {
                level += 1;
            }
            let shift = widths[level - 1].trailing_zeros() as u8;
            floors[bit] = Floor { level: level as u8, shift };
            bit += 1;
        }
        let is_shift = reach.is_power_of_two();
        let reach_shift = if is_shift { Some(reach.trailing_zeros() as u8) } else { None };
        let direct_reach = if is_shift && slots.is_power_of_two() { reach as u64 } else { 0 };
        let levels = levels as u8;
        let (slot_mask, reach_mask) = (mask_of(slots), mask_of(reach));
        Ok(Geometry {
            slots,
            reach,
            levels,
            reach_shift,
            direct_reach,
            slot_mask,
            reach_mask,
            widths,
            floors,
        })
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
    #[inline]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// The number of buckets ahead that an entry may be filed.
    #[inline]
    pub const fn reach(&self) -> u32 {
        self.reach
    }

    /// Levels that cover every deadline up to [`Tick::NEVER`].
    ///
    /// ```
    /// # use tickless_wheel::Geometry;
    /// // A longer reach needs fewer levels, and each level is one move more for a distant timer.
    /// assert_eq!(Geometry::new(64, 32)?.levels(), 11);
    /// assert_eq!(Geometry::new(512, 512)?.levels(), 6);
    /// # Ok::<(), tickless_wheel::GeometryError>(())
    /// ```
    #[inline]
    pub const fn levels(&self) -> u8 {
        self.levels
    }

    /// Width in ticks of a bucket of `level`, from 1 to [`levels`](Geometry::levels): the
    /// `level - 1`th power of the reach.
    ///
    /// # Panics
    /// `level` is zero or above [`MAX_LEVELS`].
    #[inline]
    pub const fn width(&self, level: u8) -> u64 {
        self.widths[level as usize - 1]
    }

    /// The bucket for `deadline`, seen from `from`. A deadline that has passed is filed at `from`.
    /// Takes constant time.
    ///
    /// ```
    /// # use tickless_wheel::{Geometry, Tick};
    /// let (geometry, now) = (Geometry::default(), Tick::new(1_000));
    /// let soon = geometry.place(Tick::new(1_020), now);
    /// assert_eq!((soon.level, soon.expiration), (1, Tick::new(1_020)));
    /// // Further away, it is filed among others, and comes down a level at 1472.
    /// let later = geometry.place(Tick::new(1_500), now);
    /// assert_eq!((later.level, later.expiration), (2, Tick::new(1_472)));
    /// ```
    #[inline]
    pub fn place(&self, deadline: Tick, from: Tick) -> Place {
        match self.direct(deadline, from) {
            Some((Floor { level, shift }, bucket)) => {
                let slot = self.direct_slot(bucket);
                Place { level, slot, expiration: Tick::new(bucket << shift) }
            }
            None => self.search(deadline, from),
        }
    }

    /// The level and the bucket's number there, if slots and reach are powers of two and the
    /// lowest level that could reach so far does.
    #[inline]
    pub(crate) fn direct(&self, deadline: Tick, from: Tick) -> Option<(Floor, u64)> {
        let deadline = deadline.max(from).get();
        let from = from.get();
        let floor = self.floor(deadline - from);
        let bucket = deadline >> floor.shift;
        let ahead = bucket - (from >> floor.shift);
        (ahead < self.direct_reach).then_some((floor, bucket))
    }

    /// The bucket for `deadline` in any geometry.
    #[cold]
    #[inline(never)]
    fn search(&self, deadline: Tick, from: Tick) -> Place {
        let deadline = deadline.max(from).get();
        let from = from.get();
        let mut level = self.floor(deadline - from).level;
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

    /// The slot of the bucket number `bucket` of any level.
    #[inline]
    pub(crate) fn slot(&self, bucket: u64) -> u32 {
        remainder(bucket, self.slots, self.slot_mask)
    }

    /// The same, where [`direct`](Geometry::direct) has found the bucket.
    #[inline]
    pub(crate) fn direct_slot(&self, bucket: u64) -> u32 {
        bucket as u32 & self.slot_mask
    }

    /// The number of ticks before `at` at which the last bucket of level 2 started.
    #[inline]
    pub(crate) fn since_above(&self, at: Tick) -> u64 {
        u64::from(remainder(at.get(), self.reach, self.reach_mask))
    }

    #[inline]
    fn floor(&self, distance: u64) -> Floor {
        self.floors[(distance | 1).ilog2() as usize % FLOORS]
    }

    /// The cheapest deadline between `first` and `last`, seen from `from`. Returns `first` if
    /// `last` is before it.
    ///
    /// This is the tick at which the widest bucket of the window opens. A timer that is filed
    /// there is cascaded no further down and shares the wake-up. If several buckets are equally
    /// wide, the one with the roundest number is taken, so that overlapping windows tend to meet;
    /// or the first one, if that saves a cascade because the other is a level further away.
    ///
    /// ```
    /// # use tickless_wheel::{Tick, Wheel};
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

    /// The bucket of `level` whose span holds `at`. For the wheels and their models.
    #[doc(hidden)]
    #[inline]
    pub fn place_on(&self, at: Tick, level: u8) -> Place {
        self.numbered(self.bucket(at.get(), level), level)
    }

    /// The bucket of `level` with the number `bucket`.
    #[inline]
    fn numbered(&self, bucket: u64, level: u8) -> Place {
        let slot = self.slot(bucket);
        Place { level, slot, expiration: Tick::new(bucket * self.width(level)) }
    }

    /// The number of the bucket of `level` that holds `at`, counted from the start.
    #[inline]
    fn bucket(&self, at: u64, level: u8) -> u64 {
        match self.reach_shift {
            Some(shift) => at >> (u32::from(shift) * u32::from(level - 1)),
            None => at / self.width(level),
        }
    }
}

/// The bits of a number that are its remainder by `divisor`, or zero if that is no power of two.
pub(crate) const fn mask_of(divisor: u32) -> u32 {
    if divisor.is_power_of_two() { divisor - 1 } else { 0 }
}

/// The remainder of `number` by `divisor`, which has that mask and is not 1.
#[inline]
pub(crate) const fn remainder(number: u64, divisor: u32, mask: u32) -> u32 {
    if mask > 0 { number as u32 & mask } else { (number % divisor as u64) as u32 }
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
