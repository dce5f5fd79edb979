//! Time moves: buckets expire, timers fire or come down a level.
//!
//! From bucket to bucket in order of expiration, never tick by tick. Of two buckets that expire
//! together the one on the higher level goes first: what it holds for this very tick belongs
//! into the other.
//!
//! *Invariant*: before every call of the sink the wheel is whole, without the timer that the
//! sink is given. So a sink that panics loses nothing else.
//!
//! *Tested by*: `tests/local_wheel.rs` (order, jumps, panics), `tests/local_oracle.rs`.

use crate::time::{Place, Tick};

use super::prefetch::AHEAD;
use super::slab::Key;
use super::wheel::Wheel;

// === impl Wheel ===

impl<T> Wheel<T> {
    /// Moves time to `now` and hands every timer whose deadline has come to `sink`, with the key
    /// that it had (to compare with keys one holds; it names nothing any more) and its deadline.
    /// Returns how many there were.
    ///
    /// Timers come in order of their deadlines, and in no particular order within one tick. One
    /// that was inserted after its deadline had passed counts as due when it was inserted.
    ///
    /// Time does not go back: an earlier `now` than [`Wheel::now`] does nothing, and it ends at
    /// [`Tick::LAST`].
    ///
    /// Takes constant time for every timer that fires and for every level that it, or a timer
    /// that is still pending, comes down on the way; nothing for the time in between.
    ///
    /// # Panics
    /// When the sink does. The timer that it was given is gone then. All others are still in the
    /// wheel, those not yet due included, and the next `advance` goes on from there.
    ///
    /// ```
    /// use tickless::local::Wheel;
    /// use tickless::Tick;
    ///
    /// let mut wheel = Wheel::default();
    /// for at in [500, 20, 70_000] {
    ///     wheel.insert(Tick::new(at), at);
    /// }
    /// let mut fired = Vec::new();
    /// assert_eq!(wheel.advance(Tick::new(1_000), |_, _, at| fired.push(at)), 2);
    /// assert_eq!(fired, [20, 500]);
    /// ```
    pub fn advance(&mut self, now: Tick, mut sink: impl FnMut(Key, Tick, T)) -> usize {
        let now = now.min(Tick::LAST);
        if now < self.now {
            return 0;
        }
        let mut fired = 0;
        while self.hint <= now {
            let Some(place) = self.rings.next(self.now) else {
                self.hint = Tick::NEVER;
                break;
            };
            self.hint = place.expiration;
            if place.expiration > now {
                break;
            }
            debug_assert!(place.expiration >= self.now, "a bucket was passed over");
            self.now = place.expiration;
            if place.level == 1 {
                fired += self.fire(place, &mut sink);
                // It went last of those that expire together.
                self.hint = self.now.saturating_add(1);
            } else {
                self.cascade(place);
            }
        }
        self.now = now;
        fired
    }

    /// The time at which [`advance`](Wheel::advance) has something to do next: when the earliest
    /// bucket that is not empty expires. `None` if nothing will ever fire.
    ///
    /// Sleeping until then is right: it is never after the earliest deadline, and no advance to
    /// an earlier time does anything. It is that deadline itself unless the timer lies further
    /// ahead than level 1 reaches; then the bucket that it is filed in may start earlier, and all
    /// that happens at that time is that timers come down a level. A lone timer wakes its owner
    /// at most once per level. Where timers are due already it is not after [`Wheel::now`].
    ///
    /// Takes time for every level in use.
    ///
    /// ```
    /// use tickless::local::Wheel;
    /// use tickless::{Geometry, Tick};
    ///
    /// // Level 2 has buckets of 20 ticks.
    /// let mut wheel = Wheel::new(Geometry::new(20, 20)?);
    /// wheel.insert(Tick::new(110), ());
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(100)));
    /// assert_eq!(wheel.advance(Tick::new(100), |_, _, _| {}), 0);
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(110)));
    /// # Ok::<(), tickless::GeometryError>(())
    /// ```
    pub fn next_expiration(&self) -> Option<Tick> {
        self.rings.next(self.now).map(|place| place.expiration)
    }

    /// Hands out everything in a bucket of level 1.
    #[inline]
    fn fire(&mut self, place: Place, sink: &mut impl FnMut(Key, Tick, T)) -> usize {
        let seat = self.rings.seat(place);
        for index in self.rings.bucket(seat).iter().rev().take(AHEAD) {
            self.slab.prefetch(*index);
        }
        let mut fired = 0;
        while let Some((index, soon)) = self.rings.pop(seat, AHEAD, self.slab.len()) {
            if let Some(soon) = soon {
                self.slab.prefetch(soon);
            }
            let (key, entry) = self.slab.remove(index);
            debug_assert!(entry.deadline <= self.now, "early");
            fired += 1;
            sink(key, entry.deadline, entry.payload);
        }
        fired
    }

    /// Files everything in a bucket of a higher level anew, further down.
    fn cascade(&mut self, place: Place) {
        let seat = self.rings.seat(place);
        let bucket = self.rings.take(seat);
        bucket.iter().take(AHEAD).for_each(|index| self.slab.prefetch(*index));
        for (position, index) in bucket.iter().enumerate() {
            if let Some(soon) = bucket.get(position + AHEAD) {
                self.slab.prefetch(*soon);
            }
            let entry = self.slab.listed(*index);
            let down = self.rings.geometry().place(entry.deadline, self.now);
            debug_assert!(down.level < place.level, "a cascade makes progress");
            (entry.seat, entry.position) = self.rings.push(down, *index);
        }
        self.rings.give_back(seat, bucket, self.slab.len());
    }
}
