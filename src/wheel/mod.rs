//! The wheel: levels of buckets, each level made when an entry first needs it.
//!
//! What a bucket is, is the shard's business; the wheel finds it.
//!
//! *Owner*: anyone looks up and creates; the shard's owner closes.
//!
//! *Invariants*: a level is never removed while the wheel lives, but by `dismantle`. After `close`,
//! a level that does not exist never will.
//!
//! *Orderings*: STOP (the table of levels is closed too), DISMANTLE.

use std::fmt;
use std::ptr;

use crate::entry::after_readers;
use crate::sync::{AtomicPtr, Ordering, free_slice};
use crate::time::{Geometry, Place};

/// A table of levels, each a ring of buckets `B`.
pub struct Wheel<B> {
    geometry: Geometry,
    /// First bucket of each level's ring; null: not needed yet; [`never`]: not to be made.
    levels: Box<[AtomicPtr<B>]>,
    make: fn(level: u8, slot: u32) -> B,
}

/// The wheel was closed before the level existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLevel;

/// In place of a level that will never exist: an address where no bucket can be.
fn never<B>() -> *mut B {
    ptr::without_provenance_mut(1)
}

// SAFETY: the wheel owns its buckets; every access to the table is atomic and hands out shared
// references to buckets that live as long as the wheel.
unsafe impl<B: Send + Sync> Send for Wheel<B> {}
// SAFETY: as above.
unsafe impl<B: Send + Sync> Sync for Wheel<B> {}

// === impl Wheel ===

impl<B> Wheel<B> {
    /// A wheel without levels, whose buckets are made by `make`.
    pub fn new(geometry: Geometry, make: fn(level: u8, slot: u32) -> B) -> Wheel<B> {
        let levels = (0..geometry.levels()).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Wheel { geometry, levels, make }
    }

    /// The arithmetic that entries are filed by.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bucket of `place`, on a level that is made if need be.
    ///
    /// # Errors
    /// The level does not exist and the wheel is closed.
    #[inline]
    pub fn bucket(&self, place: Place) -> Result<&B, NoLevel> {
        let level = match self.level(place.level) {
            Some(level) => level,
            None => self.make_level(place.level)?,
        };
        Ok(&level[place.slot as usize])
    }

    /// The ring of `level` (from 1), if it exists.
    #[inline]
    pub fn level(&self, level: u8) -> Option<&[B]> {
        // ORDER(DISMANTLE): Acquire - pairs with the exchange in `make_level`: the buckets are
        // made; and with the swap in `dismantle`, whose mark is found or whose epoch waits for us.
        self.ring(self.levels[usize::from(level) - 1].load(Ordering::Acquire))
    }

    /// The levels that exist, with their numbers.
    pub fn existing(&self) -> impl Iterator<Item = (u8, &[B])> {
        (1..=self.geometry.levels()).filter_map(|level| Some((level, self.level(level)?)))
    }

    /// Says that no more levels will be made.
    pub fn close(&self) {
        for level in &self.levels {
            // ORDER(STOP): AcqRel - whoever finds the mark makes no level; a level that was made
            // before is visible to us, who closes its buckets next.
            let _ = level.compare_exchange(
                ptr::null_mut(),
                never(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// Gives the memory of all levels back, once no reader can see them.
    ///
    /// # Safety The wheel is closed. Nobody uses a bucket but readers, who have been readers since
    /// before they looked it up.
    pub unsafe fn dismantle(&self) {
        for level in &self.levels {
            // ORDER(DISMANTLE): AcqRel - Acquire: the buckets are made. Release, for whoever finds
            // the mark: he does no more than that.
            let first = level.swap(never(), Ordering::AcqRel);
            if first.is_null() || first == never() {
                continue;
            }
            let ring = ptr::slice_from_raw_parts_mut(first, self.geometry.slots() as usize);
            // SAFETY: as in `ring`; the swap made it ours alone.
            let ring = unsafe { Box::from_raw(ring) };
            // SAFETY: new readers find the mark. Buckets may be dropped on any thread: closed as
            // they are, they hold nothing of anybody's.
            unsafe { after_readers(move || free_slice(ring)) };
        }
    }

    #[cold]
    fn make_level(&self, level: u8) -> Result<&[B], NoLevel> {
        let ring: Box<[B]> =
            (0..self.geometry.slots()).map(|slot| (self.make)(level, slot)).collect();
        let ring = Box::into_raw(ring);
        let entry = &self.levels[usize::from(level) - 1];
        // ORDER: AcqRel - Release publishes the buckets; Acquire: if another thread was faster,
        // its buckets are visible to us.
        let done = entry.compare_exchange(
            ptr::null_mut(),
            ring.cast::<B>(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if let Err(other) = done {
            // SAFETY: it came from `into_raw` and nobody else has seen it.
            drop(unsafe { Box::from_raw(ring) });
            return self.ring(other).ok_or(NoLevel);
        }
        // SAFETY: it was just published and lives as long as the wheel.
        Ok(unsafe { &*ring })
    }

    #[inline]
    fn ring(&self, first: *mut B) -> Option<&[B]> {
        if first.is_null() || first == never() {
            return None;
        }
        // SAFETY: a pointer in the table that is neither of the two marks is the first bucket of
        // a boxed ring of `slots` buckets, which lives until the wheel is dropped.
        Some(unsafe { std::slice::from_raw_parts(first, self.geometry.slots() as usize) })
    }
}

impl<B> Drop for Wheel<B> {
    fn drop(&mut self) {
        for level in &self.levels {
            // ORDER: Acquire - pairs with `make_level`; nobody else is left.
            let first = level.load(Ordering::Acquire);
            if !first.is_null() && first != never() {
                let slots = self.geometry.slots() as usize;
                let ring = ptr::slice_from_raw_parts_mut(first, slots);
                // SAFETY: as in `ring`; the wheel is going, so nobody borrows it.
                drop(unsafe { Box::from_raw(ring) });
            }
        }
    }
}

impl<B> fmt::Debug for Wheel<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::time::Tick;

    fn wheel() -> Wheel<(u8, u32)> {
        Wheel::new(Geometry::new(4, 4).unwrap(), |level, slot| (level, slot))
    }

    #[test]
    fn a_level_is_made_when_first_needed_and_stays() {
        let wheel = wheel();
        assert_eq!(wheel.existing().count(), 0);
        let place = wheel.geometry().place(Tick::new(9), Tick::ZERO);
        assert_eq!(wheel.bucket(place), Ok(&(2, 2)));
        let levels: Vec<u8> = wheel.existing().map(|(level, _)| level).collect();
        assert_eq!(levels, [2]);
        assert!(ptr::eq(wheel.bucket(place).unwrap(), wheel.bucket(place).unwrap()));
    }

    #[test]
    fn a_closed_wheel_makes_no_levels_and_keeps_those_it_has() {
        let wheel = wheel();
        let near = wheel.geometry().place(Tick::new(1), Tick::ZERO);
        let far = wheel.geometry().place(Tick::new(9), Tick::ZERO);
        wheel.bucket(near).unwrap();
        wheel.close();
        assert_eq!(wheel.bucket(near), Ok(&(1, 1)));
        assert_eq!(wheel.bucket(far), Err(NoLevel));
    }
}
