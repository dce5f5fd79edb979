//! The numbers of a wheel's buckets.
//!
//! [`Geometry`] computes level and slot of a deadline. The lists and the bitmap need one number for
//! both: buckets are numbered level by level, and every level starts at a multiple of 64, which is
//! a word of the bitmap. The first word belongs to no level. Number 0 is the bucket of timers that
//! never fire, and the rest of that word stays empty.
//!
//! *Tested by*: the tests below, `tests/oracle.rs` through `Wheel::check`.

use crate::{Geometry, MAX_LEVELS, MAX_SLOTS, Place, Tick};

/// A geometry, and its buckets' numbers.
#[derive(Debug)]
pub(super) struct Filing {
    geometry: Geometry,
    /// Numbers from level to level.
    stride: u32,
    /// The number of the first bucket of a level 0, wrapped round.
    origin: u32,
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

const _: () = assert!((MAX_LEVELS as u64) * (MAX_SLOTS as u64) + 64 < u32::MAX as u64);

// === impl Filing ===

impl Filing {
    pub(super) const fn new(geometry: Geometry) -> Filing {
        let stride = geometry.slots().next_multiple_of(WORD);
        Filing { geometry, stride, origin: WORD.wrapping_sub(stride) }
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

    /// The number of that bucket. `None` if the bucket never expires, or if the geometry has to
    /// search for it.
    #[inline]
    pub(super) fn quick(&self, deadline: Tick, now: Tick) -> Option<u32> {
        let (floor, bucket) = self.geometry.direct(deadline, now)?;
        if deadline == Tick::NEVER {
            return None;
        }
        Some(self.first(floor.level) + self.geometry.direct_slot(bucket))
    }

    /// The bucket of level 1 for the tick `at`.
    #[inline]
    pub(super) fn at(&self, at: Tick) -> Bucket {
        Bucket { number: WORD + self.geometry.slot(at.get()), expiration: at }
    }

    /// The bucket of level 1 that expires at `at`, if no bucket of another level can.
    #[inline]
    pub(super) fn lowest(&self, at: Tick) -> Option<Bucket> {
        (self.geometry.since_above(at) != 0).then(|| self.at(at))
    }

    /// After how many ticks something may expire that no number after that of `bucket`, which is
    /// on level 1, stands for: a bucket of level 2, or one of the next round.
    #[inline]
    pub(super) fn unseen(&self, bucket: Bucket) -> u64 {
        let to_end = WORD + self.geometry.slots() - bucket.number;
        let to_above =
            u64::from(self.geometry.reach()) - self.geometry.since_above(bucket.expiration);
        u64::from(to_end).min(to_above)
    }

    /// The number of the bucket at `place`.
    #[inline]
    pub(super) fn number(&self, place: Place) -> u32 {
        self.first(place.level) + place.slot
    }

    /// The number of the first bucket of `level`.
    #[inline]
    pub(super) fn first(&self, level: u8) -> u32 {
        self.origin.wrapping_add(u32::from(level) * self.stride)
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
