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

/// Which bucket lists an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat(NonZeroU32);

/// The rings of a wheel.
#[derive(Debug)]
pub(super) struct Rings {
    geometry: Geometry,
    /// Every level's buckets, level by level.
    buckets: Vec<Bucket>,
    occupied: Vec<Occupancy>,
    /// Entries for which empty buckets still have memory.
    idle: usize,
}

/// Reserved entries that nobody minds in a bucket: one cache line.
const SMALL: usize = 16;
/// How many times what it lists a bucket may have reserved before it is made smaller, and how
/// many times what a wheel holds its empty buckets may have reserved before they are released.
const SPARSE: usize = 4;

const SLOT_BITS: u32 = MAX_SLOTS.trailing_zeros();
const _: () = assert!(MAX_SLOTS.is_power_of_two() && (MAX_LEVELS as u32) < 1 << (32 - SLOT_BITS));

// === impl Seat ===

impl Seat {
    /// Not listed anywhere. No bucket is called so: there are fewer levels.
    pub(super) const NOWHERE: Seat = Seat(NonZeroU32::MAX);

    /// The bucket at `place`.
    #[inline]
    pub(super) fn at(place: Place) -> Seat {
        let bits = (u32::from(place.level) << SLOT_BITS) | place.slot;
        Seat(NonZeroU32::new(bits).expect("levels count from 1"))
    }

    #[inline]
    pub(super) const fn level(self) -> u8 {
        (self.0.get() >> SLOT_BITS) as u8
    }

    #[inline]
    pub(super) const fn slot(self) -> u32 {
        self.0.get() & (MAX_SLOTS - 1)
    }
}

// === impl Rings ===

impl Rings {
    pub(super) const fn new(geometry: Geometry) -> Rings {
        Rings { geometry, buckets: Vec::new(), occupied: Vec::new(), idle: 0 }
    }

    pub(super) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Lists `index` in the bucket at `seat` and says at which position.
    #[inline]
    pub(super) fn push(&mut self, seat: Seat, index: u32) -> u32 {
        if usize::from(seat.level()) > self.occupied.len() {
            self.grow(seat.level());
        }
        let number = self.number(seat);
        let bucket = &mut self.buckets[number];
        let position = bucket.len();
        if position == 0 {
            self.idle -= bucket.capacity();
            self.occupied[usize::from(seat.level()) - 1].set(seat.slot());
        }
        bucket.push(index);
        position as u32
    }

    /// Takes the entry at `position` off the bucket at `seat`. If another one moves into its
    /// position, returns that one's index. `living` is how many timers there are.
    #[inline]
    pub(super) fn remove(&mut self, seat: Seat, position: u32, living: usize) -> Option<u32> {
        let number = self.number(seat);
        let bucket = &mut self.buckets[number];
        bucket.swap_remove(position as usize);
        let moved = bucket.get(position as usize).copied();
        if bucket.is_empty() {
            self.emptied(seat, living);
        } else if bucket.capacity() > SMALL && bucket.capacity() > SPARSE * bucket.len() {
            bucket.shrink_to(bucket.len() * 2);
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
        let number = self.number(seat);
        let bucket = &mut self.buckets[number];
        let index = bucket.pop()?;
        let soon = bucket.get(bucket.len().wrapping_sub(ahead)).copied();
        if bucket.is_empty() {
            self.emptied(seat, living);
        }
        Some((index, soon))
    }

    /// What the bucket at `seat` lists.
    pub(super) fn bucket(&self, seat: Seat) -> &Bucket {
        &self.buckets[self.number(seat)]
    }

    /// Takes the whole list of the bucket at `seat`, which is not empty. Its memory comes back
    /// by [`give_back`](Rings::give_back).
    pub(super) fn take(&mut self, seat: Seat) -> Bucket {
        self.occupied[usize::from(seat.level()) - 1].clear(seat.slot());
        let number = self.number(seat);
        std::mem::take(&mut self.buckets[number])
    }

    /// Gives the bucket at `seat` the memory back that its list had.
    pub(super) fn give_back(&mut self, seat: Seat, mut memory: Bucket, living: usize) {
        memory.clear();
        let number = self.number(seat);
        debug_assert_eq!(self.buckets[number].capacity(), 0, "nothing is filed where one cascades");
        self.idle += memory.capacity();
        self.buckets[number] = memory;
        self.limit_idle(living);
    }

    /// The occupied bucket that expires first, seen from `now`; among equals that of the highest
    /// level, whose content may belong into the others.
    #[inline]
    pub(super) fn next(&self, now: Tick) -> Option<Place> {
        let mut next: Option<Place> = None;
        for (index, occupied) in self.occupied.iter().enumerate().rev() {
            let level = index as u8 + 1;
            let here = self.geometry.place_on(now, level);
            let Some(slot) = occupied.next_round(here.slot) else { continue };
            let place = self.ahead(here, slot);
            if next.is_none_or(|found| place.expiration < found.expiration) {
                next = Some(place);
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
        let slots = self.geometry.slots();
        let rings = self.buckets.chunks(slots as usize).zip(1_u8..);
        let buckets = rings.flat_map(|(ring, level)| {
            ring.iter().zip(0_u32..).map(move |(bucket, slot)| (level, slot, bucket))
        });
        buckets.filter(|(.., bucket)| !bucket.is_empty()).map(move |(level, slot, bucket)| {
            (self.ahead(self.geometry.place_on(now, level), slot), bucket)
        })
    }

    /// Asserts that bitmaps, lists and sums agree.
    pub(super) fn check(&self) {
        let slots = self.geometry.slots();
        assert_eq!(self.buckets.len(), self.occupied.len() * slots as usize);
        for (ring, occupied) in self.buckets.chunks(slots as usize).zip(&self.occupied) {
            occupied.check(slots);
            for (bucket, slot) in ring.iter().zip(0..) {
                assert_eq!(occupied.contains(slot), !bucket.is_empty(), "slot {slot}");
            }
        }
        let empty = self.buckets.iter().filter(|bucket| bucket.is_empty());
        assert_eq!(empty.map(Vec::capacity).sum::<usize>(), self.idle, "idle memory");
    }

    /// The bucket in `slot` that comes next on the level of `here`, the bucket of the present.
    #[inline]
    fn ahead(&self, here: Place, slot: u32) -> Place {
        let round = if slot < here.slot { self.geometry.slots() } else { 0 };
        let ahead = u64::from(slot + round - here.slot) * self.geometry.width(here.level);
        Place { slot, expiration: here.expiration.saturating_add(ahead), ..here }
    }

    #[inline]
    fn number(&self, seat: Seat) -> usize {
        (usize::from(seat.level()) - 1) * self.geometry.slots() as usize + seat.slot() as usize
    }

    /// Makes the levels up to `level`.
    #[cold]
    fn grow(&mut self, level: u8) {
        let slots = self.geometry.slots();
        self.occupied.resize_with(usize::from(level), || Occupancy::new(slots));
        self.buckets.resize_with(usize::from(level) * slots as usize, Vec::new);
    }

    /// The bucket at `seat` has just become empty.
    #[inline]
    fn emptied(&mut self, seat: Seat, living: usize) {
        self.occupied[usize::from(seat.level()) - 1].clear(seat.slot());
        self.idle += self.buckets[self.number(seat)].capacity();
        self.limit_idle(living);
    }

    #[inline]
    fn limit_idle(&mut self, living: usize) {
        if self.idle > SPARSE * living + SMALL * self.buckets.len() {
            self.release_idle();
        }
    }

    /// Releases what empty buckets have reserved. This walks all of them: the limit above makes
    /// sure that at least as many entries came and went since the last time.
    #[cold]
    fn release_idle(&mut self) {
        self.buckets.iter_mut().filter(|bucket| bucket.is_empty()).for_each(Vec::shrink_to_fit);
        self.idle = 0;
    }
}
