//! What can be read of a hashed wheel.
//!
//! *Tested by*: `wheel/tests/hashed.rs`, `wheel/tests/oracle.rs`.

use crate::Tick;

use super::hashed::HashedWheel;
use super::key::Key;

// === impl HashedWheel ===

impl<T> HashedWheel<T> {
    /// The payload of `key`'s timer, while that is pending. Takes constant time.
    pub fn get(&self, key: Key) -> Option<&T> {
        self.lists.find(&self.keys, key).map(|entry| &entry.payload)
    }

    /// The payload of `key`'s timer, while that is pending. Takes constant time.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.lists.find_mut(&self.keys, key).map(|entry| &mut entry.payload)
    }

    /// The deadline of `key`'s timer as it was given, while that is pending. Takes constant time.
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        self.lists.find(&self.keys, key).map(|entry| entry.deadline)
    }

    /// How many rounds `key`'s timer still stays: how often its slot will be gone through before
    /// the time at which it fires. `None` if it fired or was cancelled, or never fires.
    ///
    /// Each tick at which its slot is gone through without its being due takes one away, and a
    /// leap of the clock as many as it spans. Takes constant time.
    ///
    /// ```
    /// use tickless_wheel::{HashedWheel, Tick};
    ///
    /// let mut wheel = HashedWheel::new(8)?;
    /// let key = wheel.insert(Tick::new(20), ());
    /// assert_eq!(wheel.rounds(key), Some(2)); // At 4, at 12, and at 20 it fires.
    /// wheel.advance(Tick::new(4), |_, _, _| {});
    /// assert_eq!(wheel.rounds(key), Some(1));
    /// # Ok::<(), tickless_wheel::GeometryError>(())
    /// ```
    pub fn rounds(&self, key: Key) -> Option<u64> {
        let deadline = self.deadline(key).filter(|deadline| *deadline < Tick::NEVER)?;
        Some(deadline.get().saturating_sub(self.next.get()) / u64::from(self.slots))
    }

    /// Whether `key`'s timer is pending. Takes constant time.
    pub fn contains(&self, key: Key) -> bool {
        self.lists.find(&self.keys, key).is_some()
    }

    /// The number of pending timers, those for [`Tick::NEVER`] included. Takes constant time.
    #[inline]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no timer is pending. Takes constant time.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The latest time that the wheel was told, or its start.
    pub const fn now(&self) -> Tick {
        self.now
    }

    /// The number of slots: after so many ticks each has been gone through once.
    pub const fn slots(&self) -> u32 {
        self.slots
    }
}
