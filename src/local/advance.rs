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

use crate::time::Tick;

use super::entry::Entry;
use super::filing::Bucket;
use super::key::Key;
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
    #[inline]
    pub fn advance(&mut self, now: Tick, sink: impl FnMut(Key, Tick, T)) -> usize {
        if now < self.rings.hint {
            self.now = self.now.max(now);
            return 0;
        }
        self.advance_on(now, sink)
    }

    /// An advance on which something may expire.
    #[inline(never)]
    fn advance_on(&mut self, now: Tick, mut sink: impl FnMut(Key, Tick, T)) -> usize {
        let now = now.min(Tick::LAST);
        if now < self.now {
            return 0;
        }
        let mut fired = 0;
        while self.rings.hint <= now {
            let Bucket { mut number, expiration } = self.rings.soonest();
            if number == 0 {
                match self.come_to_next(now) {
                    Some(next) => number = next,
                    None => break,
                }
            } else {
                self.rings.hint = expiration;
                if expiration > now {
                    break;
                }
                self.now = expiration;
            }
            fired += self.fire(number, &mut sink);
            // It went last of those that expire together.
            self.rings.hint = self.now.saturating_add(1);
            self.rings.hint = self.rings.soonest().expiration;
        }
        self.now = now;
        fired
    }

    /// Lets the buckets of higher levels that are next to expire come down until one of level 1
    /// is, and names that one, which expires now; or `None` if the next one expires after `now`.
    #[inline(never)]
    fn come_to_next(&mut self, now: Tick) -> Option<u32> {
        loop {
            let Some(place) = self.rings.next(self.now) else {
                self.rings.hint = Tick::NEVER;
                return None;
            };
            self.rings.hint = place.expiration;
            if place.expiration > now {
                return None;
            }
            debug_assert!(place.expiration >= self.now, "a bucket was passed over");
            self.now = place.expiration;
            let number = self.rings.number(place);
            if place.level == 1 {
                return Some(number);
            }
            self.cascade(number, place.level);
            if place.level == 2 {
                // What is next is usually among what came down.
                let bucket = self.rings.soonest_below();
                self.rings.hint = bucket.expiration;
                if bucket.expiration > now {
                    return None;
                }
                if bucket.number > 0 {
                    self.now = bucket.expiration;
                    return Some(bucket.number);
                }
            }
        }
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
        match self.rings.soonest() {
            Bucket { number: 0, .. } => self.rings.next(self.now).map(|place| place.expiration),
            bucket => Some(bucket.expiration),
        }
    }

    /// Hands out everything in a bucket of level 1.
    #[inline]
    fn fire(&mut self, number: u32, sink: &mut impl FnMut(Key, Tick, T)) -> usize {
        let mut fired = 0;
        while let Some((Entry { deadline, key, payload }, left)) = self.rings.lists.pop(number) {
            debug_assert!(deadline <= self.now, "early");
            if left {
                self.rings.leave_block(number);
            }
            self.keys.take(key);
            fired += 1;
            sink(key, deadline, payload);
        }
        fired
    }

    /// Files everything in the bucket `number`, of a higher level, anew, further down.
    fn cascade(&mut self, number: u32, level: u8) {
        self.rings.lists.prefetch(number);
        while self.rings.lists.has_any(number) {
            // One block ahead: while this one is filed, the next comes, and the places in the
            // table of keys that are written on the way.
            self.rings.lists.prefetch_below(number);
            self.rings.lists.last_block(number).for_each(|entry| self.keys.prefetch(entry.key));
            self.cascade_block(number, level);
        }
    }

    /// Files everything in the last block of the bucket `number` anew.
    fn cascade_block(&mut self, number: u32, level: u8) {
        while let Some((entry, left)) = self.rings.lists.pop(number) {
            let key = entry.key;
            debug_assert!(entry.deadline >= self.now, "what is late is on level 1");
            if left {
                self.rings.leave_block(number);
            }
            let cell = match level {
                // All of it is due within what level 1 reaches.
                2 => self.rings.push_lowest(entry),
                _ => self.rings.push(entry, self.now),
            };
            debug_assert!(self.rings.lists.list_of(cell) < number, "a cascade makes progress");
            self.keys.moved(key, cell);
            if left {
                break;
            }
        }
    }
}
