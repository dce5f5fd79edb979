//! The hierarchical wheel: inserting, cancelling and resetting; firing is in `advance`.
//!
//! *Owner*: one thread; nothing here is shared.
//!
//! *Invariants*: every pending timer lies in one bucket, where its key finds it. That bucket
//! expires at `now` at the earliest, and no later than the timer's deadline (or than `now`, if the
//! deadline had passed when the timer was inserted). A timer for `NEVER` lies in a bucket that
//! does not expire.
//!
//! *Tested by*: `tests/hierarchy.rs`, `tests/oracle.rs`, `fuzz/`.

use core::fmt;

use crate::{Geometry, Tick};

use super::entry::Entry;
use super::key::{Key, Keys};
use super::rings::Rings;

/// A hierarchical timing wheel for one thread, with payloads `T`.
///
/// A timer is inserted with a deadline. [`advance`](Wheel::advance) hands it out once time has
/// reached the deadline, unless it was cancelled. The wheel has no clock: the code that owns it
/// tells it the time. `insert`, `cancel` and `reset` cost the same whether ten timers are pending
/// or ten million. `advance` costs a constant for each timer that fires and for each level that a
/// timer comes down on the way, and nothing for empty time, however long. Of many timers, many may
/// come down at once: [`advance_within`](Wheel::advance_within) does a part of that.
///
/// Memory: 28 bytes and the payload (in multiples of 8) per timer, 8 of them not touched before it
/// leaves, and 4
/// bytes per bucket of each level in use. Timers lie in blocks of up to a kilobyte: of 32 timers
/// with a small payload, of 2 at least. A bucket's last block may be partly empty; room for one in
/// each bucket is reserved as timers are inserted, so that an advance allocates nothing. The memory
/// of timers that have left serves the next ones, in any bucket, and
/// [`shrink_to_fit`](Wheel::shrink_to_fit) gives it back to the allocator, and what is reserved.
///
/// ```
/// use tickless_wheel::{Tick, Wheel};
///
/// let mut wheel = Wheel::default();
/// wheel.insert(Tick::new(5), "five");
/// let key = wheel.insert(Tick::new(3), "three");
/// assert_eq!(wheel.cancel(key), Some("three"));
///
/// let mut fired = Vec::new();
/// wheel.advance(Tick::new(10), |_, deadline, payload| fired.push((deadline, payload)));
/// assert_eq!(fired, [(Tick::new(5), "five")]);
/// ```
pub struct Wheel<T> {
    pub(super) now: Tick,
    pub(super) keys: Keys,
    pub(super) rings: Rings<T>,
}

// === impl Wheel ===

impl<T> Wheel<T> {
    /// An empty wheel at [`Tick::ZERO`]. Nothing is allocated before the first timer.
    pub const fn new(geometry: Geometry) -> Wheel<T> {
        Wheel::with_start(geometry, Tick::ZERO)
    }

    /// An empty wheel at `now`, for ticks that are not counted from zero. A start at
    /// [`Tick::NEVER`] is one at [`Tick::LAST`].
    pub const fn with_start(geometry: Geometry, now: Tick) -> Wheel<T> {
        let now = if now.get() < Tick::LAST.get() { now } else { Tick::LAST };
        Wheel { now, keys: Keys::new(), rings: Rings::new(geometry) }
    }

    /// An empty wheel at [`Tick::ZERO`] with room for `capacity` timers.
    ///
    /// So many timers need no further memory, except for the tables of buckets and of blocks.
    ///
    /// # Panics
    /// If that much memory cannot be addressed.
    pub fn with_capacity(geometry: Geometry, capacity: usize) -> Wheel<T> {
        let mut wheel = Wheel::new(geometry);
        wheel.reserve(capacity);
        wheel
    }

    /// Makes room for `additional` timers beside those that are pending.
    ///
    /// # Panics
    /// If that much memory cannot be addressed.
    pub fn reserve(&mut self, additional: usize) {
        self.keys.reserve(additional);
        self.rings.reserve(additional);
    }

    /// How many timers there is room for, those that are pending included: so many need no further
    /// memory, except for the tables of buckets and of blocks. (If the timers lie on more than two
    /// levels, some more blocks may be partly empty.)
    pub fn capacity(&self) -> usize {
        self.keys.capacity().min(self.rings.capacity()).max(self.len())
    }

    /// Adds a timer that fires once time has reached `deadline`.
    ///
    /// A deadline that has passed, or is [`now`](Wheel::now), fires at the next
    /// [`advance`](Wheel::advance), also at one to the same `now`. A timer for [`Tick::NEVER`]
    /// never fires; it can be cancelled, reset and drained.
    ///
    /// Takes constant time, except when memory grows.
    ///
    /// # Panics
    /// If there is no room for another timer: at most 2^32 - 1 can be pending, less the empty
    /// places in the buckets' last blocks.
    #[inline]
    pub fn insert(&mut self, deadline: Tick, payload: T) -> Key {
        let Some(key) = self.keys.next() else {
            return self.insert_slow(deadline, payload);
        };
        match self.rings.try_push(Entry { deadline, key, payload }, self.now) {
            Ok(cell) => self.keys.give(cell),
            Err(Entry { payload, .. }) => return self.insert_slow(deadline, payload),
        }
        key
    }

    /// Cancels the timer that `key` names and returns its payload. Returns `None` if it has fired
    /// or was cancelled already.
    ///
    /// Takes constant time. The timer is gone at once and costs nothing later.
    #[inline]
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let (entry, left) = self.rings.lists.take_out(&mut self.keys, key)?;
        self.keys.take(key);
        match left {
            None => Some(entry.payload),
            Some(list) => self.leave_block(list, entry.payload),
        }
    }

    /// Moves the timer that `key` names to another deadline, earlier or later, under the same rules
    /// as [`insert`](Wheel::insert). Returns `false` if it has fired or was cancelled.
    ///
    /// Takes constant time, except when memory grows.
    ///
    /// ```
    /// use tickless_wheel::{Tick, Wheel};
    ///
    /// let mut wheel = Wheel::default();
    /// let key = wheel.insert(Tick::new(7), "idle");
    /// assert!(wheel.reset(key, Tick::new(9)));
    /// assert_eq!(wheel.advance(Tick::new(8), |_, _, _| {}), 0);
    /// assert_eq!(wheel.advance(Tick::new(9), |_, _, _| {}), 1);
    /// assert!(!wheel.reset(key, Tick::new(20)));
    /// ```
    #[inline]
    pub fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        let Some((entry, left)) = self.rings.lists.take_out(&mut self.keys, key) else {
            return false;
        };
        if let Some(list) = left {
            self.rings.leave_block(list);
        }
        let cell = self.rings.push(Entry { deadline, ..entry }, self.now);
        self.keys.moved(key, cell);
        true
    }

    /// Slots, reach and widths of the wheel's levels.
    pub const fn geometry(&self) -> Geometry {
        *self.rings.geometry()
    }

    /// Gives unused memory back to the allocator. Pending timers keep their places, so unused
    /// memory that lies before the last of them stays. Keys keep their meaning. What was reserved
    /// for timers that come down goes as well, so an advance may allocate before more are inserted.
    ///
    /// Takes time for every bucket and every timer that there is room for.
    pub fn shrink_to_fit(&mut self) {
        self.keys.shrink();
        self.rings.lists.shrink();
    }

    /// An insert that needs a new key, a new block or a new level.
    #[inline(never)]
    fn insert_slow(&mut self, deadline: Tick, payload: T) -> Key {
        let key = self.keys.next().unwrap_or_else(|| self.make_key());
        let cell = self.rings.push_slow(Entry { deadline, key, payload }, self.now);
        self.keys.give(cell);
        key
    }

    /// The next key, and room for its timer in each bucket that it may come down to: so an advance
    /// allocates nothing.
    fn make_key(&mut self) -> Key {
        let key = self.keys.next_or_make();
        self.rings.lists.make_room(self.keys.capacity());
        key
    }

    /// The end of a cancel by which `list` has to leave a block: the call passes the payload on,
    /// so that a cancel which makes no call has nothing to save from one.
    #[inline(never)]
    fn leave_block(&mut self, list: u32, payload: T) -> Option<T> {
        self.rings.leave_block(list);
        Some(payload)
    }
}

impl<T> Default for Wheel<T> {
    /// An empty wheel at [`Tick::ZERO`] with 256 slots per level, all within reach.
    ///
    /// [`Geometry::default`] differs: it is for engines in which two parties file from different
    /// times. A wheel of one thread gains nothing from more slots than reach. Wider levels are
    /// fewer levels, and each level costs a timer one move.
    fn default() -> Wheel<T> {
        Wheel::new(Geometry::new(256, 256).expect("a valid geometry"))
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("now", &self.now)
            .field("len", &self.len())
            .field("next_expiration", &self.next_expiration())
            .field("geometry", self.rings.geometry())
            .finish_non_exhaustive()
    }
}
