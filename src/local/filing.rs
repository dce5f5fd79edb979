//! Which bucket of all a deadline belongs into.
//!
//! Buckets are numbered level by level, and every level starts at a multiple of 64, which is a
//! word of the bitmap. The first word of numbers is not of a level: number 0 is for what never
//! fires, and the others stay empty.
//!
//! Where slots and reach are powers of two, as is usual, the arithmetic of [`Geometry::place`]
//! comes down to one look into a table, a shift and a mask.
//!
//! *Tested by*: the tests below, `tests/local_oracle.rs` through `Wheel::check`.

use crate::time::{Geometry, MAX_LEVELS, MAX_SLOTS, Place, Tick};

/// A geometry, prepared for filing.
#[derive(Debug)]
pub(super) struct Filing {
    geometry: Geometry,
    /// Numbers from level to level.
    stride: u32,
    /// Buckets that may be filed ahead without asking the geometry: its reach, or none.
    reach: u64,
    /// What is left of a count of buckets is the slot.
    mask: u64,
    /// By the position of the highest bit of a distance: the lowest level that could reach it.
    steps: [Step; STEPS],
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// The number of the level's first bucket.
    first: u32,
    /// The width of the level's buckets, as a power of two.
    shift: u32,
}

/// A bucket by its number, and when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) number: u32,
    pub(super) expiration: Tick,
}

/// The bucket for timers that never fire. It does not expire.
pub(super) const PARKED: Bucket = Bucket { number: 0, expiration: Tick::NEVER };

const WORD: u32 = u64::BITS;
const STEPS: usize = u64::BITS as usize;

const _: () = assert!((MAX_LEVELS as u64) * (MAX_SLOTS as u64) + 64 < u32::MAX as u64);

// === impl Filing ===

impl Filing {
    pub(super) const fn new(geometry: Geometry) -> Filing {
        let (slots, reach) = (geometry.slots(), geometry.reach());
        let stride = slots.next_multiple_of(WORD);
        let mask = slots as u64 - 1;
        let mut steps = [Step { first: WORD, shift: 0 }; STEPS];
        if !slots.is_power_of_two() || !reach.is_power_of_two() {
            return Filing { geometry, stride, reach: 0, mask, steps };
        }
        let mut bit = 0;
        let mut level = 1;
        while bit < STEPS {
            if level < geometry.levels() && geometry.width(level + 1) <= 1 << bit {
                level += 1;
            }
            let shift = geometry.width(level).trailing_zeros();
            steps[bit] = Step { first: WORD + (level as u32 - 1) * stride, shift };
            bit += 1;
        }
        Filing { geometry, stride, reach: reach as u64, mask, steps }
    }

    #[inline]
    pub(super) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bucket for `deadline`, seen from `now`.
    pub(super) fn bucket(&self, deadline: Tick, now: Tick) -> Bucket {
        if deadline == Tick::NEVER {
            return PARKED;
        }
        let place = self.geometry.place(deadline, now);
        Bucket { number: self.number(place), expiration: place.expiration }
    }

    /// The number of that bucket. `None` where it takes more to say: it never expires, the lowest
    /// level that could reach far enough does not, or there is no table.
    #[inline]
    pub(super) fn quick(&self, deadline: Tick, now: Tick) -> Option<u32> {
        let due = deadline.max(now).get();
        let now = now.get();
        let step = self.steps[((due - now) | 1).ilog2() as usize % STEPS];
        let count = due >> step.shift;
        if count - (now >> step.shift) >= self.reach || deadline == Tick::NEVER {
            return None;
        }
        Some(step.first + (count & self.mask) as u32)
    }

    /// The bucket of level 1 for what is due at `at`.
    #[inline]
    pub(super) fn at(&self, at: Tick) -> Bucket {
        let slot = match self.reach {
            0 => at.get() % u64::from(self.geometry.slots()),
            _ => at.get() & self.mask,
        };
        Bucket { number: WORD + slot as u32, expiration: at }
    }

    /// The bucket of level 1 that expires at `at`, if no bucket of another level can.
    #[inline]
    pub(super) fn lowest(&self, at: Tick) -> Option<Bucket> {
        (self.above(at) != 0).then(|| self.at(at))
    }

    /// After how many ticks something may expire that no number after that of `bucket`, which is
    /// on level 1, stands for: a bucket of level 2, or one of the next round.
    #[inline]
    pub(super) fn unseen(&self, bucket: Bucket) -> u64 {
        let to_end = WORD + self.geometry.slots() - bucket.number;
        let to_above = u64::from(self.geometry.reach()) - self.above(bucket.expiration);
        u64::from(to_end).min(to_above)
    }

    /// How many ticks before `at` the last bucket of level 2 started.
    #[inline]
    fn above(&self, at: Tick) -> u64 {
        let reach = u64::from(self.geometry.reach());
        if self.reach > 0 { at.get() & (reach - 1) } else { at.get() % reach }
    }

    /// The number of the bucket at `place`.
    #[inline]
    pub(super) fn number(&self, place: Place) -> u32 {
        self.first(place.level) + place.slot
    }

    /// The number of the first bucket of `level`.
    #[inline]
    pub(super) fn first(&self, level: u8) -> u32 {
        WORD + u32::from(level - 1) * self.stride
    }

    /// The level that has the bucket `number`, or 0.
    #[inline]
    pub(super) fn level(&self, number: u32) -> u8 {
        if number < WORD { 0 } else { ((number - WORD) / self.stride) as u8 + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_geometry_says() {
        let shapes = [(2, 2), (4, 4), (8, 4), (20, 16), (20, 20), (64, 32), (256, 256), (512, 512)];
        for (slots, reach) in shapes {
            let geometry = Geometry::new(slots, reach).unwrap();
            let filing = Filing::new(geometry);
            for now in [0, 1, 63, 64, 12_345, 1 << 40, Tick::LAST.get()] {
                for bit in 0..u64::BITS {
                    for ahead in [1_u64 << bit, (1 << bit) - 1, 3 << bit >> 1, u64::MAX >> bit] {
                        let deadline = Tick::new(now).saturating_add(ahead);
                        let bucket = filing.bucket(deadline, Tick::new(now));
                        let quick = filing.quick(deadline, Tick::new(now));
                        assert!(quick.is_none_or(|number| number == bucket.number));
                        if deadline == Tick::NEVER {
                            assert_eq!((bucket, quick), (PARKED, None));
                            continue;
                        }
                        let place = geometry.place(deadline, Tick::new(now));
                        assert_eq!(bucket.number, filing.number(place), "{deadline:?} at {now}");
                        assert_eq!(bucket.expiration, place.expiration);
                        assert_eq!(filing.level(bucket.number), place.level);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_due_belongs_into_the_bucket_of_now() {
        let filing = Filing::new(Geometry::new(64, 64).unwrap());
        let now = Tick::new(100);
        for deadline in [0, 99, 100] {
            let bucket = filing.bucket(Tick::new(deadline), now);
            assert_eq!(bucket, Bucket { number: 64 + 36, expiration: now });
        }
    }
}
