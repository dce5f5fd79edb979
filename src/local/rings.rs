//! The buckets of a wheel: one ring of them per level, made when first needed.
//!
//! A bucket is a growable array of slab indices. Entries know their position in it, so leaving
//! is a swap with the last one, and a bucket that expires is read in sequence: with a linked
//! list every entry would cost a memory latency of its own.
//!
//! *Invariants*: a slot is occupied exactly when its bucket is not empty; `idle` is what the
//! empty buckets have reserved; a bucket that lost entries one by one has not reserved more than
//! [`SPARSE`] times what it lists (or [`SMALL`]).
//!
//! *Tested by*: the tests below, `tests/local_oracle.rs` through `Wheel::check`.

use std::num::NonZeroU32;

use crate::time::{Geometry, MAX_LEVELS, MAX_SLOTS, Place, Tick};

use super::occupancy::Occupancy;

/// A bucket's list: slab indices.
pub(super) type Bucket = Vec<u32>;

/// Which bucket lists an entry: its number among all buckets, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat(NonZeroU32);

/// The rings of a wheel.
#[derive(Debug)]
pub(super) struct Rings {
    geometry: Geometry,
    /// Every level's buckets, level by level.
    buckets: Vec<Bucket>,
    /// Which of them are not empty, by the same numbers.
    occupied: Occupancy,
    levels: u8,
    /// Entries for which empty buckets still have memory.
    idle: usize,
}

/// Reserved entries that nobody minds in a bucket: one cache line.
const SMALL: usize = 16;
/// How many times what it lists a bucket may have reserved before it is made smaller, and how
/// many times what a wheel holds its empty buckets may have reserved before they are released.
const SPARSE: usize = 4;

const _: () = assert!((MAX_LEVELS as u64) * (MAX_SLOTS as u64) < u32::MAX as u64);

// === impl Seat ===

impl Seat {
    /// Not listed anywhere. No bucket is called so: there are fewer.
    pub(super) const NOWHERE: Seat = Seat(NonZeroU32::MAX);

    #[inline]
    const fn number(self) -> usize {
        self.0.get() as usize - 1
    }
}

// === impl Rings ===

impl Rings {
    pub(super) const fn new(geometry: Geometry) -> Rings {
        let occupied = Occupancy::new();
        Rings { geometry, buckets: Vec::new(), occupied, levels: 0, idle: 0 }
    }

    pub(super) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bucket at `place`.
    #[inline]
    pub(super) fn seat(&self, place: Place) -> Seat {
        let number = u32::from(place.level - 1) * self.geometry.slots() + place.slot;
        Seat(NonZeroU32::MIN.saturating_add(number))
    }

    /// Lists `index` in the bucket at `place`, and says which one that is and at which position.
    #[inline]
    pub(super) fn push(&mut self, place: Place, index: u32) -> (Seat, u32) {
        if place.level > self.levels {
            self.grow(place.level);
        }
        let seat = self.seat(place);
        let bucket = &mut self.buckets[seat.number()];
        let position = bucket.len();
        if position < bucket.capacity() && position > 0 {
            bucket.push(index);
        } else {
            self.push_slow(seat, index);
        }
        (seat, position as u32)
    }

    /// Lists `index` where that is the first, or where the list has to grow.
    #[inline(never)]
    fn push_slow(&mut self, seat: Seat, index: u32) {
        let bucket = &mut self.buckets[seat.number()];
        if bucket.is_empty() {
            self.idle -= bucket.capacity();
            self.occupied.set(seat.number());
        }
        bucket.push(index);
    }

    /// Takes the entry at `position` off the bucket at `seat`. If another one moves into its
    /// position, returns that one's index. `living` is how many timers there are.
    #[inline]
    pub(super) fn remove(&mut self, seat: Seat, position: u32, living: usize) -> Option<u32> {
        let bucket = &mut self.buckets[seat.number()];
        bucket.swap_remove(position as usize);
        let moved = bucket.get(position as usize).copied();
        if bucket.capacity() > SPARSE * bucket.len() {
            self.sparse(seat, living);
        }
        moved
    }

    /// Takes the last entry off the bucket at `seat`, and names the one `ahead` places before.
    #[inline]
    pub(super) fn pop(
        &mut self,
        seat: Seat,
        ahead: usize,
        living: usize,
    ) -> Option<(u32, Option<u32>)> {
        let bucket = &mut self.buckets[seat.number()];
        let index = bucket.pop()?;
        let soon = bucket.get(bucket.len().wrapping_sub(ahead)).copied();
        if bucket.is_empty() {
            self.emptied(seat, living);
        }
        Some((index, soon))
    }

    /// What the bucket at `seat` lists.
    pub(super) fn bucket(&self, seat: Seat) -> &Bucket {
        &self.buckets[seat.number()]
    }

    /// Takes the whole list of the bucket at `seat`, which is not empty. Its memory comes back
    /// by [`give_back`](Rings::give_back).
    pub(super) fn take(&mut self, seat: Seat) -> Bucket {
        self.occupied.clear(seat.number());
        std::mem::take(&mut self.buckets[seat.number()])
    }

    /// Gives the bucket at `seat` the memory back that its list had.
    pub(super) fn give_back(&mut self, seat: Seat, mut memory: Bucket, living: usize) {
        memory.clear();
        let bucket = &mut self.buckets[seat.number()];
        debug_assert_eq!(bucket.capacity(), 0, "nothing is filed where one cascades");
        self.idle += memory.capacity();
        *bucket = memory;
        self.limit_idle(living);
    }

    /// The occupied bucket that expires first, seen from `now`; among equals that of the highest
    /// level, whose content may belong into the others.
    #[inline]
    pub(super) fn next(&self, now: Tick) -> Option<Place> {
        let mut next: Option<Place> = None;
        for level in 1..=self.levels {
            let here = self.geometry.place_on(now, level);
            // The buckets of this level and of those above start where its own do.
            let start = if here.expiration < now { self.ahead_by(here, 1) } else { now };
            if next.is_some_and(|found| found.expiration < start) {
                break;
            }
            let place = self.next_on(here);
            if place.is_some_and(|at| next.is_none_or(|found| at.expiration <= found.expiration)) {
                next = place;
            }
        }
        next
    }

    /// Releases what empty buckets have reserved, and what the others have too much of.
    pub(super) fn shrink(&mut self) {
        self.buckets.iter_mut().for_each(Vec::shrink_to_fit);
        self.idle = 0;
    }

    /// Every bucket that lists something, and where it is, seen from `now`.
    pub(super) fn filled(&self, now: Tick) -> impl Iterator<Item = (Place, &Bucket)> {
        let slots = self.geometry.slots() as usize;
        self.buckets.iter().enumerate().filter(|(_, bucket)| !bucket.is_empty()).map(
            move |(number, bucket)| {
                let here = self.geometry.place_on(now, (number / slots) as u8 + 1);
                (self.ahead(here, (number % slots) as u32), bucket)
            },
        )
    }

    /// Asserts that bitmap, lists and sums agree.
    pub(super) fn check(&self) {
        assert_eq!(self.buckets.len(), usize::from(self.levels) * self.geometry.slots() as usize);
        self.occupied.check();
        for (number, bucket) in self.buckets.iter().enumerate() {
            assert_eq!(self.occupied.contains(number), !bucket.is_empty(), "bucket {number}");
        }
        let empty = self.buckets.iter().filter(|bucket| bucket.is_empty());
        assert_eq!(empty.map(Vec::capacity).sum::<usize>(), self.idle, "idle memory");
    }

    /// The occupied bucket on the level of `here`, the bucket of the present, that comes next.
    #[inline]
    fn next_on(&self, here: Place) -> Option<Place> {
        let slots = self.geometry.slots();
        let first = self.seat(Place { slot: 0, ..here }).number();
        let end = first + slots as usize;
        let present = first + here.slot as usize;
        let later = self.occupied.next(present).filter(|number| *number < end);
        let number = later.or_else(|| self.occupied.next(first).filter(|number| *number < present));
        number.map(|number| self.ahead(here, (number - first) as u32))
    }

    /// The bucket in `slot` that comes next on the level of `here`, the bucket of the present.
    #[inline]
    fn ahead(&self, here: Place, slot: u32) -> Place {
        let round = if slot < here.slot { self.geometry.slots() } else { 0 };
        let expiration = self.ahead_by(here, slot + round - here.slot);
        Place { slot, expiration, ..here }
    }

    /// When the bucket that comes so many after `here` on its level expires.
    #[inline]
    fn ahead_by(&self, here: Place, buckets: u32) -> Tick {
        here.expiration.saturating_add(u64::from(buckets) * self.geometry.width(here.level))
    }

    /// Makes the levels up to `level`.
    #[cold]
    fn grow(&mut self, level: u8) {
        self.levels = level;
        let count = usize::from(level) * self.geometry.slots() as usize;
        self.buckets.resize_with(count, Vec::new);
        self.occupied.grow(count);
    }

    /// The bucket at `seat` has lost an entry, and lists few for what it has reserved.
    #[inline(never)]
    fn sparse(&mut self, seat: Seat, living: usize) {
        let bucket = &mut self.buckets[seat.number()];
        if bucket.is_empty() {
            self.emptied(seat, living);
        } else if bucket.capacity() > SMALL {
            bucket.shrink_to(bucket.len() * 2);
        }
    }

    /// The bucket at `seat` has just become empty.
    #[inline(never)]
    fn emptied(&mut self, seat: Seat, living: usize) {
        self.occupied.clear(seat.number());
        self.idle += self.buckets[seat.number()].capacity();
        self.limit_idle(living);
    }

    #[inline]
    fn limit_idle(&mut self, living: usize) {
        if self.idle > SPARSE * living + SMALL * self.buckets.len() {
            self.release_idle();
        }
    }

    /// Releases what empty buckets have reserved. This walks all of them: the limit above makes
    /// sure that about as many entries came and went since the last time.
    #[cold]
    fn release_idle(&mut self) {
        self.buckets.iter_mut().filter(|bucket| bucket.is_empty()).for_each(Vec::shrink_to_fit);
        self.idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings() -> Rings {
        Rings::new(Geometry::new(8, 8).unwrap())
    }

    fn place(level: u8, slot: u32) -> Place {
        Place { level, slot, expiration: Tick::ZERO }
    }

    #[test]
    fn levels_are_made_when_they_are_needed() {
        let mut rings = rings();
        assert_eq!((rings.levels, rings.next(Tick::ZERO)), (0, None));
        rings.push(place(1, 3), 0);
        assert_eq!(rings.levels, 1);
        rings.push(place(4, 7), 1);
        assert_eq!((rings.levels, rings.buckets.len()), (4, 32));
        rings.check();
    }

    #[test]
    fn of_buckets_that_expire_together_the_highest_goes_first() {
        let mut rings = rings();
        rings.push(place(1, 0), 0);
        rings.push(place(2, 2), 1);
        rings.push(place(3, 1), 2);
        // Seen from 9: level 1 at 16, level 2 at 16, level 3 at 64.
        let next = rings.next(Tick::new(9)).unwrap();
        assert_eq!(next, Place { level: 2, slot: 2, expiration: Tick::new(16) });
    }

    #[test]
    fn a_ring_is_searched_from_the_present_round_to_just_before_it() {
        for now in 0..20 {
            for ahead in 0..8 {
                let mut rings = rings();
                let at = Tick::new(now + ahead);
                rings.push(place(2, 0), 7);
                rings.push(rings.geometry.place_on(at, 1), 8);
                assert_eq!(
                    rings.next_on(rings.geometry.place_on(Tick::new(now), 1)).unwrap().expiration,
                    at
                );
            }
        }
    }

    #[test]
    fn a_bucket_that_lost_most_of_its_entries_reserves_little() {
        let mut rings = rings();
        for index in 0..10_000 {
            rings.push(place(1, 1), index);
        }
        let seat = rings.seat(place(1, 1));
        for living in (1..10_000).rev() {
            rings.remove(seat, 0, living);
            let bucket = rings.bucket(seat);
            assert!(bucket.capacity() <= SMALL.max(SPARSE * bucket.len()), "{}", bucket.capacity());
        }
        rings.check();
    }

    #[test]
    fn empty_buckets_keep_memory_only_in_proportion_to_what_lives() {
        let mut rings = rings();
        for slot in 0..8 {
            for index in 0..10_000 {
                rings.push(place(1, slot), index);
            }
        }
        let mut living = 80_000;
        for slot in 0..8 {
            let seat = rings.seat(place(1, slot));
            while rings.pop(seat, 8, living).is_some() {
                living -= 1;
            }
            assert!(rings.idle <= SPARSE * living + SMALL * 8, "{} for {living}", rings.idle);
            rings.check();
        }
        assert_eq!(living, 0);
    }

    #[test]
    fn a_bucket_that_cascaded_keeps_its_memory_for_the_next_round() {
        let mut rings = rings();
        for index in 0..10 {
            rings.push(place(2, 1), index);
        }
        let seat = rings.seat(place(2, 1));
        let bucket = rings.take(seat);
        assert_eq!(bucket.len(), 10);
        rings.give_back(seat, bucket, 10);
        rings.check();
        assert!(rings.bucket(seat).capacity() >= 10);
        rings.shrink();
        rings.check();
        assert_eq!(rings.bucket(seat).capacity(), 0);
    }
}
