//! Walking everything that a wheel promises itself.
//!
//! *Tested by*: whoever calls it; that it notices what is wrong was seen by breaking the wheel on
//! purpose, line by line.

use crate::time::{Place, Tick};

use super::rings::Seat;
use super::wheel::Wheel;

// === impl Wheel ===

impl<T> Wheel<T> {
    /// Asserts every invariant of the wheel. For tests and fuzzing: takes time for every timer
    /// and every bucket.
    ///
    /// # Panics
    /// If one does not hold, which is a bug of this crate.
    #[doc(hidden)]
    pub fn check(&self) {
        self.slab.check();
        self.rings.check();
        let mut listed = 0;
        let mut earliest = Tick::NEVER;
        for (place, bucket) in self.rings.filled(self.now) {
            earliest = earliest.min(place.expiration);
            for (position, index) in bucket.iter().enumerate() {
                self.check_entry(place, position, *index);
                listed += 1;
            }
        }
        assert!(self.hint <= earliest, "the hint {:?} is after {earliest:?}", self.hint);
        assert_eq!(self.next_expiration().unwrap_or(Tick::NEVER), earliest);
        let unlisted = self.slab.iter().filter(|entry| entry.seat == Seat::NOWHERE);
        assert!(unlisted.clone().all(|entry| entry.deadline == Tick::NEVER));
        assert_eq!(listed + unlisted.count(), self.len(), "every timer is listed once, or never");
    }

    fn check_entry(&self, place: Place, position: usize, index: u32) {
        let key = self.slab.key(index).expect("a bucket lists what exists");
        let entry = self.slab.get(key).expect("the key of an occupied slot fits");
        assert_eq!(entry.seat, self.rings.seat(place), "{key:?} knows its bucket");
        assert_eq!(entry.position as usize, position, "{key:?} knows its position");
        assert!(entry.deadline < Tick::NEVER, "{key:?} never fires");
        assert!(place.expiration >= self.now, "{key:?} was passed over");
        if place.level == 1 {
            assert!(entry.deadline <= place.expiration, "{key:?} would fire early");
        } else {
            let width = self.rings.geometry().width(place.level);
            let end = place.expiration.saturating_add(width);
            assert!((place.expiration..end).contains(&entry.deadline), "{key:?} is misplaced");
        }
    }
}
