//! The hashed wheel: inserting, cancelling and putting off; firing is in `rounds`.
//!
//! *Owner*: whoever holds it; nothing here is shared.
//!
//! *Invariants*: every pending timer lies in one list, where its key finds it: the list of its
//! deadline's slot, that of what is late if time had reached the deadline when it was filed, or
//! that of what never fires. No timer in a slot is due before `next`, and `next` is `now` or the
//! tick after it.
//!
//! *Tested by*: the tests below, `wheel/tests/hashed.rs`, `wheel/tests/both.rs`,
//! `wheel/tests/oracle.rs`, `wheel/tests/memory.rs`, `fuzz/`.

use core::fmt;

use crate::{Geometry, GeometryError, Tick};

use super::entry::Entry;
use super::key::{Key, Keys};
use super::lists::Lists;

/// A hashed timing wheel for one thread, with payloads `T`: one ring of slots, and timers that
/// lie further ahead than the ring is long stay for several rounds.
///
/// The timer for tick *t* lies in slot *t* modulo the number of slots. Each tick, one slot is gone
/// through: what is due leaves, everything else has one of its remaining [rounds](Self::rounds)
/// less. They are not counted down, though: a timer keeps its deadline, from which and the time
/// the rounds follow. So a tick writes nothing to timers that stay, and a leap of the clock takes
/// as many rounds from each as it spans at the price of one.
///
/// It does what [`Wheel`](super::Wheel) does, at other costs, which [`TimingWheel`] compares:
/// timers within one round are filed once and leave from there, but those that are to stay for
/// many are looked at in each.
///
/// Memory: 20 bytes and the payload (in multiples of 8) per timer, 8 more once it has left, and 4
/// bytes per slot. A slot that is not empty may have room for 31 timers more, or as many fewer as
/// larger payloads fill a kilobyte, but for one at least: with more slots than timers, this is
/// most of it. What timers leave behind is used by the next ones, whichever slot they go to, and
/// [`shrink_to_fit`](HashedWheel::shrink_to_fit) gives back the rest.
///
/// ```
/// use tickless_wheel::{HashedWheel, Tick};
///
/// let mut wheel = HashedWheel::default();
/// wheel.insert(Tick::new(5), "five");
/// wheel.insert(Tick::new(5_000), "five thousand");
/// let key = wheel.insert(Tick::new(3), "three");
/// assert_eq!(wheel.cancel(key), Some("three"));
///
/// let mut fired = Vec::new();
/// wheel.advance(Tick::new(10), |_, deadline, payload| fired.push((deadline, payload)));
/// assert_eq!(fired, [(Tick::new(5), "five")]);
/// ```
///
/// [`TimingWheel`]: super::TimingWheel
pub struct HashedWheel<T> {
    pub(super) now: Tick,
    /// The first tick whose slot was not gone through, or not to its end.
    pub(super) next: Tick,
    pub(super) slots: u32,
    pub(super) keys: Keys,
    /// The slots, then what is late, then what never fires. Made with the first timer.
    pub(super) lists: Lists<T>,
}

// === impl HashedWheel ===

impl<T> HashedWheel<T> {
    /// Slots unless said otherwise: what hashed wheels usually have.
    pub const DEFAULT_SLOTS: u32 = 512;

    /// An empty wheel of `slots` slots at [`Tick::ZERO`]. Nothing is allocated before the first
    /// timer.
    ///
    /// The more slots, the fewer timers are looked at per tick that are not due. A power of two
    /// makes filing a little cheaper.
    ///
    /// # Errors
    /// [`GeometryError::Slots`] if `slots` is not in `2..=`[`MAX_SLOTS`](crate::MAX_SLOTS).
    pub fn new(slots: u32) -> Result<HashedWheel<T>, GeometryError> {
        HashedWheel::with_start(slots, Tick::ZERO)
    }

    /// An empty wheel of `slots` slots at `now`, for ticks that are not counted from zero. A start
    /// at [`Tick::NEVER`] is one at [`Tick::LAST`].
    ///
    /// # Errors
    /// As [`new`](HashedWheel::new).
    pub fn with_start(slots: u32, now: Tick) -> Result<HashedWheel<T>, GeometryError> {
        // One ring is bounded as each ring of a hierarchy is.
        Geometry::new(slots, slots)?;
        let now = now.min(Tick::LAST);
        let (keys, lists) = (Keys::new(), Lists::new());
        Ok(HashedWheel { now, next: now.saturating_add(1), slots, keys, lists })
    }

    /// An empty wheel of `slots` slots at [`Tick::ZERO`] with room for `capacity` timers.
    ///
    /// The slots take what they need from it; no other memory is needed for as many timers, but
    /// for that of the slots themselves.
    ///
    /// # Errors
    /// As [`new`](HashedWheel::new).
    ///
    /// # Panics
    /// If that much memory cannot be addressed.
    pub fn with_capacity(slots: u32, capacity: usize) -> Result<HashedWheel<T>, GeometryError> {
        let mut wheel = HashedWheel::new(slots)?;
        wheel.keys.reserve(capacity);
        wheel.lists.reserve(capacity, wheel.list_count());
        Ok(wheel)
    }

    /// Adds a timer that fires once time has reached `deadline`.
    ///
    /// A deadline that has passed, or is [`now`](HashedWheel::now), fires at the next
    /// [`advance`](HashedWheel::advance), also at one to the same `now`. A timer for
    /// [`Tick::NEVER`] never fires; it can be cancelled, reset and drained, and no tick looks at
    /// it.
    ///
    /// Takes constant time, except when memory grows.
    ///
    /// # Panics
    /// With 2^32 - 1 timers pending, or fewer by what slots leave empty; or if memory for another
    /// one cannot be addressed.
    #[inline]
    pub fn insert(&mut self, deadline: Tick, payload: T) -> Key {
        let key = self.keys.next_or_make();
        let cell = self.push(Entry { deadline, key, payload });
        self.keys.give(cell);
        key
    }

    /// Takes back the timer of `key` before it fires. `None` if it fired or was cancelled.
    ///
    /// Takes constant time, and so does nothing later on: the timer is gone at once.
    #[inline]
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let (entry, left) = self.lists.take_out(&mut self.keys, key)?;
        self.settle(key, left);
        Some(entry.payload)
    }

    /// Moves the timer of `key` to another deadline, earlier or later, under the same rules as
    /// [`insert`](HashedWheel::insert). `false` if it fired or was cancelled.
    ///
    /// Takes constant time, except when memory grows.
    #[inline]
    pub fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let Some((entry, left)) = self.lists.take_out(&mut self.keys, key) else { return false };
        if let Some(list) = left {
            self.lists.leave_block(list);
        }
        let cell = self.push(Entry { deadline, ..entry });
        self.keys.moved(key, cell);
        true
    }

    /// Gives memory back to the allocator, as far as the timers that are pending allow: they keep
    /// their places, so what lies before the last of them stays. Keys keep their meaning.
    ///
    /// Takes time for every slot and every timer that there is room for.
    pub fn shrink_to_fit(&mut self) {
        self.keys.shrink();
        self.lists.shrink();
    }

    /// Files `entry` and says at which cell.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry<T>) -> u32 {
        let list = self.list_for(entry.deadline);
        self.lists.push(list, entry).unwrap_or_else(|entry| {
            let cell = self.add_block(list);
            self.lists.put(list, cell, entry);
            cell
        })
    }

    /// Adds a block to `list`, and makes all lists if there are none.
    #[inline(never)]
    fn add_block(&mut self, list: u32) -> u32 {
        if self.lists.count() == 0 {
            self.lists.grow(self.list_count());
        }
        self.lists.add_block(list)
    }

    /// The list that a timer for `deadline` belongs into if it is filed now.
    #[inline]
    pub(super) fn list_for(&self, deadline: Tick) -> u32 {
        if deadline <= self.now {
            self.late()
        } else if deadline < Tick::NEVER {
            self.slot(deadline)
        } else {
            self.parked()
        }
    }

    /// The slot that is gone through at the tick `at`.
    #[inline]
    pub(super) fn slot(&self, at: Tick) -> u32 {
        let slots = u64::from(self.slots);
        let slot = if slots.is_power_of_two() { at.get() & (slots - 1) } else { at.get() % slots };
        slot as u32
    }

    /// The list of timers whose deadline time had reached when they were filed.
    #[inline]
    pub(super) const fn late(&self) -> u32 {
        self.slots
    }

    /// The list of timers that never fire.
    #[inline]
    pub(super) const fn parked(&self) -> u32 {
        self.slots + 1
    }

    const fn list_count(&self) -> usize {
        self.slots as usize + 2
    }

    /// What is left to do when the timer of `key` was taken out.
    #[inline]
    pub(super) fn settle(&mut self, key: Key, left: Option<u32>) {
        self.keys.take(key);
        if let Some(list) = left {
            self.lists.leave_block(list);
        }
    }
}

impl<T> Default for HashedWheel<T> {
    /// An empty wheel of [`DEFAULT_SLOTS`](HashedWheel::DEFAULT_SLOTS) slots at [`Tick::ZERO`].
    fn default() -> HashedWheel<T> {
        HashedWheel::new(Self::DEFAULT_SLOTS).expect("a valid number of slots")
    }
}

impl<T> fmt::Debug for HashedWheel<T> {
    /// Leaves out [`next_expiration`](HashedWheel::next_expiration), which may take long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashedWheel")
            .field("now", &self.now)
            .field("len", &self.len())
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successive_ticks_go_through_successive_slots_round_and_round() {
        for slots in [2, 3, 8, 512, 1000] {
            let wheel = HashedWheel::<()>::new(slots).unwrap();
            let mut expected = 0;
            for at in 0..3_000 {
                assert_eq!(wheel.slot(Tick::new(at)), expected);
                expected = if expected + 1 < slots { expected + 1 } else { 0 };
            }
        }
    }

    #[test]
    fn what_is_late_and_what_never_fires_is_in_no_slot() {
        let wheel = HashedWheel::<()>::with_start(8, Tick::new(100)).unwrap();
        for late in [0, 3, 99, 100] {
            assert_eq!(wheel.list_for(Tick::new(late)), wheel.late());
        }
        assert_eq!(wheel.list_for(Tick::new(101)), wheel.slot(Tick::new(101)));
        assert_eq!(wheel.list_for(Tick::LAST), wheel.slot(Tick::LAST));
        assert_eq!(wheel.list_for(Tick::NEVER), wheel.parked());
        assert_eq!([wheel.late(), wheel.parked()], [8, 9]);
        assert_eq!(wheel.list_count(), 10);
    }
}
