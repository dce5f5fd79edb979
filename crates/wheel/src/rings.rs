//! The buckets of a wheel: one ring of them per level, made when first needed.
//!
//! *Invariants*: a bucket's bit is set exactly when its list is not empty; `hint` is not after
//! any bucket's expiration.
//!
//! *Tested by*: the tests below, `tests/oracle.rs` through `Wheel::check`.

use crate::{Geometry, Place, Tick};

use super::entry::Entry;
use super::filing::{Bucket, Filing};
use super::lists::Lists;
use super::occupancy::Occupancy;

/// The rings of a wheel.
#[derive(Debug)]
pub(super) struct Rings<T> {
    filing: Filing,
    /// Every bucket's list, by its number.
    pub(super) lists: Lists<T>,
    /// Which of them are not empty.
    occupied: Occupancy,
    /// How many levels there are so far.
    levels: u8,
    /// No bucket expires before this.
    pub(super) hint: Tick,
}

// === impl Rings ===

impl<T> Rings<T> {
    pub(super) const fn new(geometry: Geometry) -> Rings<T> {
        Rings {
            filing: Filing::new(geometry),
            lists: Lists::new(),
            occupied: Occupancy::new(),
            levels: 0,
            hint: Tick::NEVER,
        }
    }

    pub(super) const fn geometry(&self) -> &Geometry {
        self.filing.geometry()
    }

    /// The number of the bucket at `place`.
    pub(super) fn number(&self, place: Place) -> u32 {
        self.filing.number(place)
    }

    /// Makes room for `timers` more.
    pub(super) fn reserve(&mut self, timers: usize) {
        self.lists.reserve(timers, self.partial());
    }

    /// How many timers there is room for: the reverse of `reserve`.
    pub(super) fn capacity(&self) -> usize {
        let (cells, block) = (self.lists.cells.capacity(), Lists::<T>::BLOCK as usize);
        (cells / (block + 1)).max(cells.saturating_sub(self.partial() * block))
    }

    /// In the long run, the buckets of two levels have a block that is not full.
    fn partial(&self) -> usize {
        self.filing.first(3) as usize
    }

    /// Files `entry`, seen from `now`, and says at which cell. Gives it back if that takes
    /// more than [writing it down](Rings::push_slow).
    #[inline]
    pub(super) fn try_push(&mut self, entry: Entry<T>, now: Tick) -> Result<u32, Entry<T>> {
        match self.filing.quick(entry.deadline, now) {
            Some(number) => self.lists.push(number, entry),
            None => Err(entry),
        }
    }

    /// Files `entry`, seen from `now`, and says at which cell.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry<T>, now: Tick) -> u32 {
        self.try_push(entry, now).unwrap_or_else(|entry| self.push_slow(entry, now))
    }

    #[inline(never)]
    pub(super) fn push_slow(&mut self, entry: Entry<T>, now: Tick) -> u32 {
        let bucket = self.filing.bucket(entry.deadline, now);
        self.push_into(bucket, entry)
    }

    /// Files `entry`, which is due within what level 1 reaches, and says at which cell.
    #[inline]
    pub(super) fn push_lowest(&mut self, entry: Entry<T>) -> u32 {
        let bucket = self.filing.at(entry.deadline);
        self.push_into(bucket, entry)
    }

    #[inline]
    fn push_into(&mut self, bucket: Bucket, entry: Entry<T>) -> u32 {
        self.lists.push(bucket.number, entry).unwrap_or_else(|entry| {
            let cell = self.add_block(bucket);
            self.lists.put(bucket.number, cell, entry);
            cell
        })
    }

    /// Adds a block to the list of `bucket`, and a level for it if need be.
    #[inline(never)]
    fn add_block(&mut self, bucket: Bucket) -> u32 {
        if bucket.number as usize >= self.lists.count() {
            self.grow(self.filing.level(bucket.number));
        }
        let cell = self.lists.add_block(bucket.number);
        self.occupied.set(bucket.number as usize);
        self.hint = self.hint.min(bucket.expiration);
        cell
    }

    /// The lists, and where it is noted which of them are not empty.
    pub(super) fn parts(&mut self) -> (&mut Lists<T>, &mut Occupancy) {
        (&mut self.lists, &mut self.occupied)
    }

    /// The list of the bucket `number` has to leave its last block.
    #[inline(never)]
    pub(super) fn leave_block(&mut self, number: u32) {
        if self.lists.leave_block(number) {
            self.occupied.clear(number as usize);
        }
    }

    /// The bucket that expires first, if that is one of level 1 which the bitmap shows. If not,
    /// it is not before the time that is returned, with a number that is of no level.
    #[inline]
    pub(super) fn soonest(&self) -> Bucket {
        match self.filing.lowest(self.hint) {
            None => Bucket { number: 0, expiration: self.hint },
            Some(hinted) if self.lists.has_any(hinted.number) => hinted,
            Some(hinted) => self.soonest_after(hinted),
        }
    }

    /// The same when all that expires on higher levels at the time of the hint has.
    #[inline]
    pub(super) fn soonest_below(&self) -> Bucket {
        let hinted = self.filing.at(self.hint);
        if self.lists.has_any(hinted.number) { hinted } else { self.soonest_after(hinted) }
    }

    #[inline(never)]
    fn soonest_after(&self, hinted: Bucket) -> Bucket {
        let number = hinted.number as usize;
        let unseen = self.filing.unseen(hinted);
        let found = self.occupied.next(number + 1).unwrap_or(usize::MAX);
        let ahead = unseen.min((found - number) as u64);
        let number = if ahead < unseen { found as u32 } else { 0 };
        Bucket { number, expiration: hinted.expiration.saturating_add(ahead) }
    }

    /// The occupied bucket that expires first, seen from `now`; among equals that of the highest
    /// level, whose content may belong into the others.
    #[inline]
    pub(super) fn next(&self, now: Tick) -> Option<Place> {
        let mut next: Option<Place> = None;
        for level in 1..=self.levels {
            let here = self.geometry().place_on(now, level);
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

    /// The timer that expires first, seen from `now`, and when. `None` if none does. Of a bucket of
    /// a higher level with more than `most` timers, only its expiration counts, without a timer.
    #[inline]
    pub(super) fn earliest(&self, now: Tick, most: usize) -> Option<(Tick, Option<&Entry<T>>)> {
        // The time at which a timer is due is its deadline if that has not passed.
        let mut earliest: Option<(Tick, Option<&Entry<T>>)> = None;
        for level in 1..=self.levels {
            let here = self.geometry().place_on(now, level);
            // On one level, the bucket that expires first holds the timers that are due first.
            let Some(place) = self.next_on(here) else { continue };
            if earliest.is_some_and(|(due, _)| due <= place.expiration) {
                continue;
            }
            let number = self.number(place);
            let first = match level {
                // All of it is due when the bucket expires.
                1 => (place.expiration, self.lists.last(number)),
                _ => self.earliest_in(number, most).unwrap_or((place.expiration, None)),
            };
            if earliest.is_none_or(|(before, _)| first.0 < before) {
                earliest = Some(first);
            }
        }
        earliest
    }

    /// The timer of the bucket `number` that is due first, and when. `None` if there are more than
    /// `most`.
    fn earliest_in(&self, number: u32, most: usize) -> Option<(Tick, Option<&Entry<T>>)> {
        let mut timers = self.lists.timers(number);
        let first = timers.by_ref().take(most).min_by_key(|entry| entry.deadline)?;
        timers.next().is_none().then_some((first.deadline, Some(first)))
    }

    /// Where the bucket `number` is, seen from `now`. `None` if it does not expire.
    pub(super) fn place(&self, number: u32, now: Tick) -> Option<Place> {
        let level = self.filing.level(number);
        (level > 0).then(|| {
            let here = self.geometry().place_on(now, level);
            self.ahead(here, number - self.filing.first(level))
        })
    }

    /// Asserts that bitmap, lists and hint agree, seen from `now`, and returns when the first
    /// bucket expires.
    pub(super) fn check(&self, now: Tick) -> Tick {
        self.occupied.check();
        self.lists.check();
        let mut earliest = Tick::NEVER;
        for number in 0..self.lists.count() as u32 {
            let is_empty = self.lists.is_empty(number);
            assert_eq!(self.occupied.contains(number as usize), !is_empty, "bucket {number}");
            if let Some(place) = self.place(number, now).filter(|_| !is_empty) {
                earliest = earliest.min(place.expiration);
            }
        }
        assert!(self.hint <= earliest, "the hint {:?} is after {earliest:?}", self.hint);
        earliest
    }

    /// The occupied bucket on the level of `here`, the bucket of the present, that comes next.
    #[inline]
    fn next_on(&self, here: Place) -> Option<Place> {
        let first = self.filing.first(here.level) as usize;
        let end = first + self.geometry().slots() as usize;
        let present = first + here.slot as usize;
        let later = self.occupied.next(present).filter(|number| *number < end);
        let number = later.or_else(|| self.occupied.next(first).filter(|number| *number < present));
        number.map(|number| self.ahead(here, (number - first) as u32))
    }

    /// The bucket in `slot` that comes next on the level of `here`, the bucket of the present.
    #[inline]
    fn ahead(&self, here: Place, slot: u32) -> Place {
        let round = if slot < here.slot { self.geometry().slots() } else { 0 };
        let expiration = self.ahead_by(here, slot + round - here.slot);
        Place { slot, expiration, ..here }
    }

    /// When the bucket that comes so many after `here` on its level expires.
    #[inline]
    fn ahead_by(&self, here: Place, buckets: u32) -> Tick {
        // Only where there is nothing may the product not fit.
        let ticks = u64::from(buckets).saturating_mul(self.geometry().width(here.level));
        here.expiration.saturating_add(ticks)
    }

    /// Makes the levels up to `level`.
    #[cold]
    fn grow(&mut self, level: u8) {
        self.levels = level;
        let count = self.filing.first(level + 1) as usize;
        self.occupied.grow(count);
        self.lists.grow(count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Keys;
    use super::*;

    fn rings() -> Rings<()> {
        Rings::new(Geometry::new(8, 8).unwrap())
    }

    fn push(rings: &mut Rings<()>, place: Place) {
        let mut keys = Keys::new();
        let bucket = Bucket { number: rings.number(place), expiration: place.expiration };
        let key = keys.next_or_make();
        rings.push_into(bucket, Entry { deadline: place.expiration, key, payload: () });
    }

    fn place(level: u8, slot: u32) -> Place {
        Place { level, slot, expiration: Tick::ZERO }
    }

    #[test]
    fn levels_are_made_when_they_are_needed() {
        let mut rings = rings();
        assert_eq!((rings.levels, rings.next(Tick::ZERO)), (0, None));
        push(&mut rings, place(1, 3));
        assert_eq!(rings.levels, 1);
        push(&mut rings, place(4, 7));
        assert_eq!(rings.levels, 4);
        rings.check(Tick::ZERO);
    }

    #[test]
    fn a_round_of_the_top_level_may_end_after_the_end_of_time() {
        let mut rings = Rings::<()>::new(Geometry::new(1 << 12, 2).unwrap());
        let at = rings.geometry().place(Tick::LAST, Tick::ZERO);
        push(&mut rings, at);
        assert_eq!(rings.check(Tick::ZERO), at.expiration);
    }

    #[test]
    fn of_buckets_that_expire_together_the_highest_goes_first() {
        let mut rings = rings();
        push(&mut rings, place(1, 0));
        push(&mut rings, place(2, 2));
        push(&mut rings, place(3, 1));
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
                push(&mut rings, place(2, 0));
                let there = rings.geometry().place_on(at, 1);
                push(&mut rings, there);
                assert_eq!(
                    rings.next_on(rings.geometry().place_on(Tick::new(now), 1)).unwrap().expiration,
                    at
                );
            }
        }
    }
}
