//! The wheel: levels of buckets. They are made in segments, each when an entry first needs it.
//!
//! The shard defines what a bucket is; the wheel finds it.
//!
//! *Owner*: any thread looks up and creates; the shard's owner closes.
//!
//! *Invariants*: while the wheel lives, only `dismantle` removes a segment. After `close`, a
//! segment that does not exist never will. A thread that needs a bucket makes at most [`SEGMENT`]
//! of them, however many slots a level has: no producer waits for a million.
//!
//! *Orderings*: STOP (the table of segments is closed too), DISMANTLE.
//!
//! *Tested by*: `loom-tests/tests/{stop,dismantle}.rs`, `tests/segments.rs`.

use std::ptr;

use crate::entry::after_readers;
use crate::sync::{AtomicPtr, IS_CHECKED, Ordering, free_slice};
use crate::time::{Geometry, Place};

/// Buckets in a segment; fewer in the last of a level. By default a level is one segment.
pub const SEGMENT: u32 = if IS_CHECKED { 2 } else { 64 };

/// A table of levels, each a ring of buckets `B`.
pub struct Wheel<B> {
    geometry: Geometry,
    /// First buckets of the segments, level by level; null: not needed yet; [`never`]: not to be
    /// made.
    segments: Box<[AtomicPtr<B>]>,
    /// Segments of a level.
    per_level: usize,
    make: fn(level: u8, slot: u32) -> B,
}

/// The wheel was closed before the bucket existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBucket;

/// In place of a segment that will never exist: an address where no bucket can be.
fn never<B>() -> *mut B {
    ptr::without_provenance_mut(1)
}

/// Whether this is the address of a bucket, and neither of the two marks.
#[inline]
fn is_bucket<B>(first: *mut B) -> bool {
    first.addr() > never::<B>().addr()
}

// SAFETY: the wheel owns its buckets; every access to the table is atomic and hands out shared
// references to buckets that live as long as the wheel.
unsafe impl<B: Send + Sync> Send for Wheel<B> {}
// SAFETY: as above.
unsafe impl<B: Send + Sync> Sync for Wheel<B> {}

// === impl Wheel ===

impl<B> Wheel<B> {
    /// A wheel without buckets, which are made by `make`. O(levels * slots / [`SEGMENT`]).
    pub fn new(geometry: Geometry, make: fn(level: u8, slot: u32) -> B) -> Wheel<B> {
        let per_level = geometry.slots().div_ceil(SEGMENT) as usize;
        let all = per_level * usize::from(geometry.levels());
        let segments = (0..all).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Wheel { geometry, segments, per_level, make }
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
        // ORDER(STOP, DISMANTLE): Acquire - pairs with the CAS in `make_segment`: the buckets are
        // made; and with the swap in `dismantle`: we find its mark, or its epoch waits for us.
        let first = self.segments[self.segment_of(place.level, place.slot)].load(Ordering::Acquire);
        // SAFETY: a pointer in the table that is none of the marks is to the first bucket of a
        // segment, which lives until the wheel is dropped or dismantled. The slot is below the
        // geometry's, so the bucket is in the segment, also if that is the last of its level.
        is_bucket(first).then(|| unsafe { &*first.add((place.slot % SEGMENT) as usize) })
    }

    /// The buckets that exist, with level and slot, from the lowest level on. A segment that does
    /// not exist costs one load.
    pub fn existing(&self) -> impl Iterator<Item = (u8, u32, &B)> {
        self.existing_from(1, 0)
    }

    /// As [`Wheel::existing`], from a place on; the slot may be one beyond the last.
    pub fn existing_from(&self, level: u8, slot: u32) -> impl Iterator<Item = (u8, u32, &B)> {
        let begin = self.segment_of(level, slot);
        let segments = (begin..self.segments.len()).filter_map(|at| {
            let (level, first) = self.place_of(at);
            Some((level, first, self.segment(at)?))
        });
        let buckets = segments.flat_map(|(level, first, buckets)| {
            (first..).zip(buckets).map(move |(slot, bucket)| (level, slot, bucket))
        });
        buckets.skip_while(move |&(l, s, _)| (l, s) < (level, slot))
    }

    /// Makes sure that no more segments are made.
    pub fn close(&self) {
        for segment in &self.segments {
            // ORDER(STOP): AcqRel - a thread that finds the mark makes no segment; a segment that
            // was made before is visible to us, and we close its buckets next.
            let (none, mark) = (ptr::null_mut(), never());
            let _ = segment.compare_exchange(none, mark, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Frees the memory of all segments, once no reader can see them.
    ///
    /// # Safety
    /// The wheel is closed. Only readers use a bucket, and each of them has been a reader since
    /// before it looked the bucket up.
    pub unsafe fn dismantle(&self) {
        for at in 0..self.segments.len() {
            // SAFETY: the box waits for the readers that looked a bucket up before.
            if let Some(made) = unsafe { self.take(at) } {
                // SAFETY: new readers find the mark. Buckets may be dropped on any thread: they are
                // closed, so they hold nothing that belongs to anybody.
                unsafe { after_readers(move || free_slice(made)) };
            }
        }
    }

    /// Takes a segment out of the table, if it exists, and leaves the mark that it never will.
    ///
    /// # Safety
    /// The box is dropped when nobody uses the buckets any more.
    unsafe fn take(&self, at: usize) -> Option<Box<[B]>> {
        // ORDER(DISMANTLE): AcqRel - Acquire: the buckets are made. Release, for threads that find
        // the mark: they do nothing else with it.
        let first = self.segments[at].swap(never(), Ordering::AcqRel);
        let made = ptr::slice_from_raw_parts_mut(first, self.len_of(at));
        // SAFETY: as in `segment`; the swap made it ours alone.
        is_bucket(first).then(|| unsafe { Box::from_raw(made) })
    }

    #[cold]
    #[inline(never)]
    fn make_segment(&self, place: Place) -> Result<&B, NoBucket> {
        let at = self.segment_of(place.level, place.slot);
        let (level, first) = self.place_of(at);
        let slots = first..first + self.len_of(at) as u32;
        let made = Box::into_raw(slots.map(|slot| (self.make)(level, slot)).collect::<Box<[B]>>());
        // ORDER(STOP): AcqRel - Release publishes the buckets; Acquire: if another thread was
        // faster, its buckets are visible to us.
        let done = self.segments[at].compare_exchange(
            ptr::null_mut(),
            made.cast::<B>(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if done.is_err() {
            // SAFETY: it came from `into_raw` and nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
        }
        self.get(place).ok_or(NoBucket)
    }

    /// The segment of a place.
    #[inline]
    fn segment_of(&self, level: u8, slot: u32) -> usize {
        (usize::from(level) - 1) * self.per_level + (slot / SEGMENT) as usize
    }

    /// Level and slot of a segment's first bucket.
    fn place_of(&self, segment: usize) -> (u8, u32) {
        let (level, at) = (segment / self.per_level, segment % self.per_level);
        (level as u8 + 1, at as u32 * SEGMENT)
    }

    /// How many buckets a segment has.
    fn len_of(&self, segment: usize) -> usize {
        let (_, first) = self.place_of(segment);
        (self.geometry.slots() - first).min(SEGMENT) as usize
    }

    /// A segment, if it exists.
    fn segment(&self, at: usize) -> Option<&[B]> {
        // ORDER(STOP): Acquire - as in `get`.
        let first = self.segments[at].load(Ordering::Acquire);
        // SAFETY: as in `get`: a boxed segment of that length, which lives as long as the wheel.
        is_bucket(first).then(|| unsafe { std::slice::from_raw_parts(first, self.len_of(at)) })
    }
}

impl<B> Drop for Wheel<B> {
    fn drop(&mut self) {
        for at in 0..self.segments.len() {
            // SAFETY: the wheel is going, so nobody borrows a bucket.
            drop(unsafe { self.take(at) });
        }
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

    fn place(level: u8, slot: u32) -> Place {
        Place { level, slot, expiration: Tick::ZERO }
    }

    fn segments(wheel: &Wheel<(u8, u32)>) -> usize {
        (0..wheel.segments.len()).filter(|&at| wheel.segment(at).is_some()).count()
    }

    #[test]
    fn of_a_million_buckets_as_many_are_made_as_a_segment_has() {
        let wheel = wheel(1 << 20);
        for (n, slot) in [(1, 0), (2, 999_999), (2, 63), (3, 64)] {
            let bucket = wheel.bucket(place(2, slot)).unwrap();
            assert!(*bucket == (2, slot) && ptr::eq(bucket, wheel.get(place(2, slot)).unwrap()));
            assert_eq!((segments(&wheel), wheel.existing().count()), (n, 64 * n));
        }
    }

    #[test]
    fn every_place_has_its_own_bucket_also_where_the_last_segment_is_short() {
        for slots in [2, 63, 64, 65, 100, 128] {
            let wheel = wheel(slots);
            let levels = wheel.geometry().levels().min(3);
            let all = |slot| (1..=levels).map(move |level| (level, slot));
            for (level, slot) in (0..slots).rev().flat_map(all) {
                assert_eq!(wheel.bucket(place(level, slot)), Ok(&(level, slot)));
            }
            assert_eq!(wheel.existing().count() as u32, slots * u32::from(levels));
            assert!(wheel.existing().all(|(level, slot, bucket)| (level, slot) == *bucket));
            assert!(wheel.existing().is_sorted_by_key(|(level, slot, _)| (level, slot)));
        }
    }

    #[test]
    fn a_walk_goes_on_from_any_place_and_from_the_end_of_a_level() {
        for slots in [2, 64, 100, 128] {
            let wheel = wheel(slots);
            for (level, slot) in [(1, 1), (2, slots - 1)] {
                wheel.bucket(place(level, slot)).unwrap();
            }
            let all: Vec<(u8, u32)> = wheel.existing().map(|(_, _, bucket)| *bucket).collect();
            for (level, slot) in (1..=2).flat_map(|level| (0..=slots).map(move |s| (level, s))) {
                let rest = wheel.existing_from(level, slot).map(|(_, _, bucket)| *bucket);
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

    #[test]
    fn a_closed_wheel_makes_no_segments_and_keeps_those_it_has() {
        let wheel = wheel(100);
        wheel.bucket(place(1, 1)).unwrap();
        wheel.close();
        assert_eq!(wheel.bucket(place(1, 63)), Ok(&(1, 63)));
        assert_eq!(wheel.bucket(place(1, 64)), Err(NoBucket));
        assert_eq!(wheel.bucket(place(2, 1)), Err(NoBucket));
    }
}
