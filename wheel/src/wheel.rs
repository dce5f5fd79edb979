//! The hierarchical wheel: inserting, cancelling and putting off; firing is in `advance`.
//!
//! *Owner*: whoever holds it; nothing here is shared.
//!
//! *Invariants*: every pending timer lies in one bucket, where its key finds it; that bucket's
//! expiration is not after the timer's deadline (or `now`, if the timer came late) and not before
//! `now`, and is never if the deadline is.
//!
//! *Tested by*: `wheel/tests/hierarchy.rs`, `wheel/tests/oracle.rs`, `fuzz/`.

use core::fmt;

use crate::{Geometry, Tick};

use super::entry::Entry;
use super::key::{Key, Keys};
use super::rings::Rings;

/// A hierarchical timing wheel for one thread, with payloads `T`.
///
/// Timers are inserted with a deadline and handed out by [`advance`](Wheel::advance) once time
/// has reached it, unless they were cancelled. The wheel has no clock: its owner tells it the
/// time. Inserting, cancelling and putting off cost the same whether ten timers are pending or
/// ten million; advancing costs a constant for each timer that fires and each level that it comes
/// down on the way, and nothing for empty time, however long.
///
/// Memory: 20 bytes and the payload (in multiples of 8) per timer, 8 more once it has left, and 4
/// bytes per bucket of each level in use. A bucket that is not empty may have room for 31 timers
/// more, or as many fewer as larger payloads fill a kilobyte, but for one at least. What timers
/// leave behind is used by the next ones, whichever bucket they go to, and
/// [`shrink_to_fit`](Wheel::shrink_to_fit) gives back the rest.
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
    /// The buckets take what they need from it; no other memory is needed for as many timers, but
    /// for that of the buckets themselves.
    ///
    /// # Panics
    /// If that much memory cannot be addressed.
    pub fn with_capacity(geometry: Geometry, capacity: usize) -> Wheel<T> {
        let mut wheel = Wheel::new(geometry);
        wheel.keys.reserve(capacity);
        wheel.rings.reserve(capacity);
        wheel
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
    /// With 2^32 - 1 timers pending, or fewer by what buckets leave empty; or if memory for another
    /// one cannot be addressed.
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

    /// Takes back the timer of `key` before it fires. `None` if it fired or was cancelled.
    ///
    /// Takes constant time, and so does nothing later on: the timer is gone at once.
    #[inline]
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let (entry, left) = self.rings.lists.take_out(&mut self.keys, key)?;
        self.keys.take(key);
        match left {
            None => Some(entry.payload),
            Some(list) => self.leave_block(list, entry.payload),
        }
    }

    /// Moves the timer of `key` to another deadline, earlier or later, under the same rules as
    /// [`insert`](Wheel::insert). `false` if it fired or was cancelled.
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

    /// The payload of `key`'s timer, while that is pending. Takes constant time.
    pub fn get(&self, key: Key) -> Option<&T> {
        self.rings.lists.find(&self.keys, key).map(|entry| &entry.payload)
    }

    /// The payload of `key`'s timer, while that is pending. Takes constant time.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.rings.lists.find_mut(&self.keys, key).map(|entry| &mut entry.payload)
    }

    /// The deadline of `key`'s timer as it was given, while that is pending. Takes constant time.
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        self.rings.lists.find(&self.keys, key).map(|entry| entry.deadline)
    }

    /// Whether `key`'s timer is pending. Takes constant time.
    pub fn contains(&self, key: Key) -> bool {
        self.rings.lists.find(&self.keys, key).is_some()
    }

    /// The number of pending timers, those for [`Tick::NEVER`] included.
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no timer is pending.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The latest time that the wheel was told, or its start.
    pub const fn now(&self) -> Tick {
        self.now
    }

    /// Slots, reach and widths of the wheel's levels.
    pub const fn geometry(&self) -> Geometry {
        *self.rings.geometry()
    }

    /// Gives memory back to the allocator, as far as the timers that are pending allow: they keep
    /// their places, so what lies before the last of them stays. Keys keep their meaning.
    ///
    /// Takes time for every bucket and every timer that there is room for.
    pub fn shrink_to_fit(&mut self) {
        self.keys.shrink();
        self.rings.lists.shrink();
    }

    /// An insert that needs a new key, a new block or a level that nothing was filed on yet.
    #[inline(never)]
    fn insert_slow(&mut self, deadline: Tick, payload: T) -> Key {
        let key = self.keys.next_or_make();
        let cell = self.rings.push_slow(Entry { deadline, key, payload }, self.now);
        self.keys.give(cell);
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
    /// Unlike in the engine's [`Geometry::default`], no second party files from another time, so
    /// that nothing is gained by more slots than reach; and wider levels are fewer levels, each
    /// of which costs a timer one move.
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
