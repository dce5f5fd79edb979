//! The hashed wheel: inserting, cancelling and resetting; firing is in `rounds`.
//!
//! *Owner*: one thread; nothing here is shared.
//!
//! *Invariants*: every pending timer lies in one list, where its key finds it. There is a list for
//! each slot; one for *late* timers, whose deadline had been reached when they were filed; and one
//! for *parked* timers, which never fire. No timer in a slot is due before `next`, and `next` is
//! `now` or the tick after it.
//!
//! *Tested by*: the tests below, `tests/hashed.rs`, `tests/both.rs`,
//! `tests/oracle.rs`, `tests/memory.rs`, `fuzz/`.

use core::fmt;

use crate::{Geometry, GeometryError, Tick};

use super::entry::Entry;
use super::geometry::{mask_of, remainder};
use super::key::{Key, Keys};
use super::lists::Lists;

/// A hashed timing wheel for one thread, with payloads `T`: one ring of slots, and timers that
/// lie further ahead than the ring is long stay for several rounds.
///
/// The timer for tick *t* lies in slot *t* modulo the number of slots. Each tick, the wheel goes
/// through one slot: timers that are due leave, and all others have one of their remaining
/// [rounds](Self::rounds) less. The rounds are not stored: they follow from a timer's deadline. So
/// a tick writes nothing to timers that stay, and a leap of the clock over several rounds goes
/// through each slot once.
///
/// It does the same as [`Wheel`](super::Wheel) at other costs, which [`TimingWheel`] compares. A
/// timer within one round is filed once and fires from there. A timer that is further ahead is
/// looked at in each round.
///
/// Memory: 28 bytes and the payload (in multiples of 8) per timer, 8 of them not touched before it
/// leaves, and 4
/// bytes per slot. Timers lie in blocks of up to a kilobyte: of 32 timers with a small payload, of
/// 2 at least. A slot's last block may be partly empty; with more slots than timers, this is most
/// of the memory. The memory of timers that have left serves the next ones, in any slot, and
/// [`shrink_to_fit`](HashedWheel::shrink_to_fit) gives it back to the allocator.
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
    /// Slots unless set otherwise, as hashed wheels usually have.
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
    /// So many timers need no further memory, except for the tables of slots and of blocks.
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
    /// If there is no room for another timer: at most 2^32 - 1 can be pending, less the empty
    /// places in the slots' last blocks.
    #[inline]
    pub fn insert(&mut self, deadline: Tick, payload: T) -> Key {
        let key = self.keys.next_or_make();
        let cell = self.push(Entry { deadline, key, payload });
        self.keys.give(cell);
        key
    }

    /// Cancels the timer that `key` names and returns its payload. Returns `None` if it has fired
    /// or was cancelled already.
    ///
    /// Takes constant time. The timer is gone at once and costs nothing later.
    #[inline]
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let (entry, left) = self.lists.take_out(&mut self.keys, key)?;
        self.settle(key, left);
        Some(entry.payload)
    }

    /// Moves the timer that `key` names to another deadline, earlier or later, under the same rules
    /// as [`insert`](HashedWheel::insert). Returns `false` if it has fired or was cancelled.
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

    /// The number of rounds that the timer of `key` has left: how often the wheel will go through
    /// its slot before the time at which it fires. `None` if it has fired, was cancelled, or never
    /// fires. Takes constant time.
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

    /// The number of slots, which is the number of ticks in a round.
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Gives unused memory back to the allocator. Pending timers keep their places, so unused
    /// memory that lies before the last of them stays. Keys keep their meaning.
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

    /// The slot that belongs to the tick `at`.
    #[inline]
    pub(super) fn slot(&self, at: Tick) -> u32 {
        remainder(at.get(), self.slots, mask_of(self.slots))
    }

    /// The list of timers whose deadline had been reached when they were filed.
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

    /// Finishes taking out the timer of `key`.
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
