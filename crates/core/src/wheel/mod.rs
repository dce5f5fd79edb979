//! The wheel: levels of buckets. A level has a table of segments of buckets. Table and segments are
//! made when an entry first needs them, so to walk over a wheel, or to close it, costs what its
//! levels in use have.
//!
//! The shard defines what a bucket is; the wheel finds it.
//!
//! *Owner*: any thread looks up and creates; the shard's owner closes.
//!
//! *Invariants*: while the wheel lives, only `dismantle` removes a table, with its segments. After
//! `close`, a table or a segment that does not exist never will. A thread that needs a bucket makes
//! at most [`SEGMENT`] of them, however many slots a level has: no producer waits for a million.
//!
//! *Orderings*: STOP (the tables are closed too), DISMANTLE.
//!
//! *Tested by*: `loom-tests/tests/{stop,dismantle}.rs`, `tests/memory/segments.rs`.

use std::{iter, ptr, slice};

use crate::entry::{Guard, after_readers};
use crate::sync::{AtomicPtr, IS_CHECKED, Ordering, free_slice, publish_slice};
use crate::time::{Geometry, Place};

/// Buckets in a segment; fewer in the last of a level. Where timers are far apart on a large ring,
/// each makes a segment, and nearly all of its buckets stay empty: a walk passes them, and a stop
/// closes them. A table has as many items as a ring has segments, so they are not smaller.
pub const SEGMENT: u32 = if IS_CHECKED { 2 } else { 8 };

/// The segments of a level: their first buckets. Null: not needed yet; [`never`]: not to be made.
type Table<B> = [AtomicPtr<B>];

/// Levels, each a ring of buckets `B`.
pub struct Wheel<B> {
    geometry: Geometry,
    /// For each level the first item of its [`Table`]; null and [`never`] as there.
    levels: Box<[AtomicPtr<AtomicPtr<B>>]>,
    /// Segments of a level.
    per_level: usize,
    make: fn(level: u8, slot: u32) -> B,
}

/// The wheel was closed before the bucket existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBucket;

/// In place of a table or segment that will never exist: an address where none can be.
fn never<B>() -> *mut B {
    ptr::without_provenance_mut(1)
}

/// Whether this is the address of a table or of a segment, and neither of the two marks.
#[inline]
fn is_made<B>(first: *mut B) -> bool {
    first.addr() > never::<B>().addr()
}

// SAFETY: the wheel owns its buckets; every access to the table is atomic and hands out shared
// references to buckets that live as long as the wheel.
unsafe impl<B: Send + Sync> Send for Wheel<B> {}
// SAFETY: every access to the table is atomic, and buckets may be shared.
unsafe impl<B: Send + Sync> Sync for Wheel<B> {}

// === impl Wheel ===

impl<B> Wheel<B> {
    /// A wheel without buckets, which are made by `make`. O(levels).
    pub fn new(geometry: Geometry, make: fn(level: u8, slot: u32) -> B) -> Wheel<B> {
        let per_level = geometry.slots().div_ceil(SEGMENT) as usize;
        let levels = (0..geometry.levels()).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Wheel { geometry, levels, per_level, make }
    }

    /// The arithmetic that entries are filed by.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bucket of `place`. Makes its segment if that does not exist.
    ///
    /// # Errors
    /// The bucket does not exist and the wheel is closed.
    ///
    /// # Panics
    /// The geometry has no such place.
    #[inline]
    pub fn bucket(&self, place: Place) -> Result<&B, NoBucket> {
        match self.get(place) {
            Some(bucket) => Ok(bucket),
            None => self.make_segment(place),
        }
    }

    /// The bucket of `place`, if it exists.
    ///
    /// # Panics
    /// The geometry has no such place.
    #[inline]
    pub fn get(&self, place: Place) -> Option<&B> {
        assert!(place.slot < self.geometry.slots(), "a ring has no more slots");
        let table = self.table(place.level)?;
        // SAFETY: a table has a segment for each slot that the geometry has.
        let segment = unsafe { table.get_unchecked((place.slot / SEGMENT) as usize) };
        // ORDER(STOP): Acquire - pairs with the CAS in `make_segment`: the buckets are made.
        let first = segment.load(Ordering::Acquire);
        // SAFETY: a pointer in the table that is none of the marks is to the first bucket of a
        // segment, which lives as long as the table. The slot is below the geometry's, so the
        // bucket is in the segment, also if that is the last of its level.
        is_made(first).then(|| unsafe { &*first.add((place.slot % SEGMENT) as usize) })
    }

    /// The buckets that exist, with level and slot, from the lowest level on. A segment that does
    /// not exist costs one load, and a level without any costs one.
    pub fn existing<'g>(&'g self, guard: Guard<'g>) -> impl Iterator<Item = (u8, u32, &'g B)> {
        self.existing_from(1, 0, guard)
    }

    /// As [`Wheel::existing`], from a place on; the slot may be one beyond the last.
    pub fn existing_from<'g>(
        &'g self,
        level: u8,
        slot: u32,
        _guard: Guard<'g>,
    ) -> impl Iterator<Item = (u8, u32, &'g B)> {
        let tables = (level..=self.geometry.levels()).filter_map(|at| Some((at, self.table(at)?)));
        let segments = tables.flat_map(move |(at, table)| {
            let mut next = if at == level { slot / SEGMENT } else { 0 };
            iter::from_fn(move || {
                let (segment, buckets) = self.first_segment(table, next)?;
                next = segment + 1;
                Some((at, segment * SEGMENT, buckets))
            })
        });
        let buckets = segments.flat_map(|(level, first, buckets)| {
            (first..).zip(buckets).map(move |(slot, bucket)| (level, slot, bucket))
        });
        buckets.skip_while(move |&(l, s, _)| (l, s) < (level, slot))
    }

    /// Makes sure that no more segments are made. O(levels), and O(segments) for each level in use.
    pub fn close(&self) {
        for (at, level) in (1..).zip(&self.levels) {
            // ORDER(STOP): AcqRel, here and below - a thread that finds the mark makes nothing;
            // what was made before is visible to us, and we close its buckets next.
            let (none, mark) = (ptr::null_mut(), never());
            let _ = level.compare_exchange(none, mark, Ordering::AcqRel, Ordering::Acquire);
            let (none, mark) = (ptr::null_mut(), never());
            for segment in self.table(at).unwrap_or_default() {
                let _ = segment.compare_exchange(none, mark, Ordering::AcqRel, Ordering::Acquire);
            }
        }
    }

    /// Frees the memory of all levels, once no reader can see them.
    ///
    /// # Safety
    /// The wheel is closed. Only readers use a bucket, and each of them has been a reader since
    /// before it looked the bucket up.
    pub unsafe fn dismantle(&self) {
        for level in &self.levels {
            if let Some(made) = self.take_table(level) {
                // SAFETY: the readers are gone then that looked a bucket up before.
                let free = move || unsafe { made.free() };
                // SAFETY: new readers find the mark. Buckets may be dropped on any thread: they are
                // closed, so they hold nothing that belongs to anybody.
                unsafe { after_readers(free) };
            }
        }
    }

    /// Takes the table out of a level, if it exists, and leaves the mark that it never will.
    fn take_table(&self, level: &AtomicPtr<AtomicPtr<B>>) -> Option<Made<B>> {
        // ORDER(DISMANTLE): AcqRel - Acquire: the table is made. Release, for threads that find the
        // mark: they do nothing else with it.
        let table = level.swap(never(), Ordering::AcqRel);
        let made = ptr::slice_from_raw_parts_mut(table, self.per_level);
        is_made(table).then(|| Made { table: made, slots: self.geometry.slots() })
    }

    /// The table of a level, if it exists.
    #[inline]
    fn table(&self, level: u8) -> Option<&Table<B>> {
        // ORDER(STOP, DISMANTLE): Acquire - pairs with the CAS in `make_table`: the table is made;
        // and with the swap in `take_table`: we find its mark, or its epoch waits for us.
        let table = self.levels[usize::from(level) - 1].load(Ordering::Acquire);
        // SAFETY: what is none of the marks is a boxed table of that length, which lives until the
        // wheel is dropped or dismantled.
        is_made(table).then(|| unsafe { slice::from_raw_parts(table, self.per_level) })
    }

    /// The table of a level. Makes it if it does not exist.
    #[inline(never)]
    fn make_table(&self, level: u8) -> Option<&Table<B>> {
        let segments = (0..self.per_level).map(|_| AtomicPtr::new(ptr::null_mut()));
        publish_slice(&self.levels[usize::from(level) - 1], segments.collect());
        self.table(level)
    }

    #[cold]
    #[inline(never)]
    fn make_segment(&self, place: Place) -> Result<&B, NoBucket> {
        let table = self.table(place.level).or_else(|| self.make_table(place.level));
        let at = place.slot / SEGMENT;
        let segment = &table.ok_or(NoBucket)?[at as usize];
        let slots = at * SEGMENT..at * SEGMENT + len_of(self.geometry.slots(), at) as u32;
        let make = |slot| (self.make)(place.level, slot);
        publish_slice(segment, slots.map(make).collect());
        self.get(place).ok_or(NoBucket)
    }

    /// The first segment that exists, from this number on.
    fn first_segment<'t>(&self, table: &'t Table<B>, from: u32) -> Option<(u32, &'t [B])> {
        let mut first = never();
        // ORDER(STOP): Acquire - pairs with the CAS in `make_segment`: the buckets are made.
        let has_one = |segment: &AtomicPtr<B>| {
            first = segment.load(Ordering::Acquire);
            is_made(first)
        };
        let at = from + table.get(from as usize..)?.iter().position(has_one)? as u32;
        let len = len_of(self.geometry.slots(), at);
        // SAFETY: a boxed segment of that length, which lives as long as the wheel.
        Some((at, unsafe { slice::from_raw_parts(first, len) }))
    }
}

/// How many buckets segment number `at` of a level with so many slots has.
fn len_of(slots: u32, at: u32) -> usize {
    (slots - at * SEGMENT).min(SEGMENT) as usize
}

impl<B> Drop for Wheel<B> {
    fn drop(&mut self) {
        for level in &self.levels {
            if let Some(made) = self.take_table(level) {
                // SAFETY: the wheel is going, so nobody borrows a bucket.
                unsafe { made.free() };
            }
        }
    }
}

/// A table that was taken out of its wheel. (No box yet: readers may still look at it.)
struct Made<B> {
    table: *mut Table<B>,
    slots: u32,
}

// SAFETY: it owns the buckets that its table points to.
unsafe impl<B: Send> Send for Made<B> {}

// === impl Made ===

impl<B> Made<B> {
    /// Frees the table and its segments.
    ///
    /// # Safety
    /// Nobody else sees them any more.
    unsafe fn free(self) {
        // SAFETY: it was made of a box, and only the thread that took it out frees it.
        let table = unsafe { Box::from_raw(self.table) };
        for (at, segment) in (0..).zip(&table) {
            // ORDER(DISMANTLE): Acquire - pairs with the CAS in `make_segment`: the buckets are
            // made. (Relaxed would do, which no model can tell: `close` has acquired each segment,
            // and who drops a wheel that was not closed comes after all that used it.)
            let first = segment.load(Ordering::Acquire);
            let made = ptr::slice_from_raw_parts_mut(first, len_of(self.slots, at));
            if is_made(first) {
                // SAFETY: a boxed segment of that length, which nobody else sees any more.
                free_slice(unsafe { Box::from_raw(made) });
            }
        }
        free_slice(table);
    }
}

debug! { impl[B] Wheel[B] { geometry } }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::time::Tick;

    fn wheel(slots: u32) -> Wheel<(u8, u32)> {
        Wheel::new(Geometry::new(slots, slots).unwrap(), |level, slot| (level, slot))
    }

    /// The tests free no bucket that they look at.
    fn guard<'g>() -> Guard<'g> {
        // SAFETY: the tests free no bucket that they look at.
        unsafe { Guard::assume() }
    }

    fn place(level: u8, slot: u32) -> Place {
        Place { level, slot, expiration: Tick::ZERO }
    }

    fn segments(wheel: &Wheel<(u8, u32)>) -> usize {
        let tables = (1..=wheel.geometry.levels()).filter_map(|level| wheel.table(level));
        let made = |first: &&AtomicPtr<_>| is_made(first.load(Ordering::Acquire));
        tables.map(|table| table.iter().filter(made).count()).sum()
    }

    #[test]
    fn of_a_million_buckets_as_many_are_made_as_a_segment_has() {
        let wheel = wheel(1 << 20);
        for (n, slot) in [(1, 0), (2, 999_999), (2, SEGMENT - 1), (3, SEGMENT)] {
            let bucket = wheel.bucket(place(2, slot)).unwrap();
            assert!(*bucket == (2, slot) && ptr::eq(bucket, wheel.get(place(2, slot)).unwrap()));
            let made = (n, n * SEGMENT as usize);
            assert_eq!((segments(&wheel), wheel.existing(guard()).count()), made);
        }
    }

    #[test]
    fn every_place_has_its_own_bucket_also_where_the_last_segment_is_short() {
        for slots in [2, SEGMENT - 1, SEGMENT, SEGMENT + 1, 100, 128] {
            let wheel = wheel(slots);
            let levels = wheel.geometry().levels().min(3);
            let all = |slot| (1..=levels).map(move |level| (level, slot));
            for (level, slot) in (0..slots).rev().flat_map(all) {
                assert_eq!(wheel.bucket(place(level, slot)), Ok(&(level, slot)));
            }
            assert_eq!(wheel.existing(guard()).count() as u32, slots * u32::from(levels));
            assert!(wheel.existing(guard()).all(|(level, slot, bucket)| (level, slot) == *bucket));
            assert!(wheel.existing(guard()).is_sorted_by_key(|(level, slot, _)| (level, slot)));
        }
    }

    #[test]
    fn a_walk_goes_on_from_any_place_and_from_the_end_of_a_level() {
        for slots in [2, 64, 100, 128] {
            let wheel = wheel(slots);
            for (level, slot) in [(1, 1), (2, slots - 1)] {
                wheel.bucket(place(level, slot)).unwrap();
            }
            let all: Vec<(u8, u32)> =
                wheel.existing(guard()).map(|(_, _, bucket)| *bucket).collect();
            for (level, slot) in (1..=2).flat_map(|level| (0..=slots).map(move |s| (level, s))) {
                let rest = wheel.existing_from(level, slot, guard()).map(|(_, _, bucket)| *bucket);
                let expected = all.iter().copied().filter(|&place| place >= (level, slot));
                assert!(rest.eq(expected), "{slots} slots from {level}, {slot}");
            }
        }
    }

    #[test]
    #[should_panic = "no more slots"]
    fn a_slot_that_no_ring_has_is_refused() {
        let wheel = wheel(3);
        wheel.bucket(place(1, 2)).unwrap();
        let _ = wheel.get(place(1, 3));
    }

    /// So its end costs what the levels in use have, however many there could be.
    #[test]
    fn a_level_that_was_never_used_has_no_table_also_when_the_wheel_is_closed() {
        let wheel = Wheel::new(Geometry::new(1 << 20, 2).unwrap(), |level, slot| (level, slot));
        wheel.bucket(place(3, 77)).unwrap();
        let tables = || (1..=wheel.geometry.levels()).filter(|&level| wheel.table(level).is_some());
        assert!(wheel.geometry.levels() > 20 && tables().eq([3]));
        wheel.close();
        assert!(tables().eq([3]));
        assert_eq!(wheel.bucket(place(4, 0)), Err(NoBucket));
        // SAFETY: nobody uses a bucket.
        unsafe { wheel.dismantle() };
        assert!(wheel.get(place(3, 77)).is_none() && tables().count() == 0);
        assert_eq!(wheel.bucket(place(3, 77)), Err(NoBucket));
    }

    #[test]
    fn a_closed_wheel_makes_no_segments_and_keeps_those_it_has() {
        let wheel = wheel(100);
        wheel.bucket(place(1, 1)).unwrap();
        wheel.close();
        assert_eq!(wheel.bucket(place(1, SEGMENT - 1)), Ok(&(1, SEGMENT - 1)));
        assert_eq!(wheel.bucket(place(1, SEGMENT)), Err(NoBucket));
        assert_eq!(wheel.bucket(place(2, 1)), Err(NoBucket));
    }
}
