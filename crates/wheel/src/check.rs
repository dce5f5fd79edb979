//! Checking all invariants of the wheels.
//!
//! *Tested by*: `tests/oracle.rs`, which calls it after each step.

use crate::Tick;

use super::entry::Entry;
use super::hashed::HashedWheel;
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
        let earliest = self.rings.check(self.now);
        assert_eq!(self.next_expiration().unwrap_or(Tick::NEVER), earliest);
        self.keys.check(self.rings.lists.iter().map(|(cell, entry)| (entry.key, cell)));
        for (cell, entry) in self.rings.lists.iter() {
            self.check_entry(cell, entry);
        }
    }

    fn check_entry(&self, cell: u32, entry: &Entry<T>) {
        let (key, deadline) = (entry.key, entry.deadline);
        let number = self.rings.lists.list_of(cell);
        let Some(place) = self.rings.place(number, self.now) else {
            assert_eq!((number, deadline), (0, Tick::NEVER), "{key:?} would not fire");
            return;
        };
        assert!(deadline < Tick::NEVER, "{key:?} never fires");
        assert!(place.expiration >= self.now, "{key:?} was passed over");
        if place.level == 1 {
            assert!(deadline <= place.expiration, "{key:?} would fire early");
        } else {
            let width = self.rings.geometry().width(place.level);
            let end = place.expiration.saturating_add(width);
            assert!((place.expiration..end).contains(&deadline), "{key:?} is misplaced");
        }
    }
}

// === impl HashedWheel ===

impl<T> HashedWheel<T> {
    /// Asserts every invariant of the wheel. For tests and fuzzing: takes time for every timer
    /// and every slot.
    ///
    /// # Panics
    /// If one does not hold, which is a bug of this crate.
    #[doc(hidden)]
    pub fn check(&self) {
        let after = self.now.saturating_add(1);
        assert!([self.now, after].contains(&self.next), "{:?} at {:?}", self.next, self.now);
        self.lists.check();
        self.keys.check(self.lists.iter().map(|(cell, entry)| (entry.key, cell)));
        for (cell, Entry { deadline, key, .. }) in self.lists.iter() {
            let list = self.lists.list_of(cell);
            if list == self.late() {
                assert!(*deadline <= self.now, "{key:?} would fire early");
            } else if list == self.parked() {
                assert_eq!(*deadline, Tick::NEVER, "{key:?} would not fire");
            } else {
                assert_eq!(list, self.slot(*deadline), "{key:?} is misplaced");
                assert!((self.next..Tick::NEVER).contains(deadline), "{key:?} was passed over");
            }
        }
    }
}
