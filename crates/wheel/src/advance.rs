//! Time moves: buckets expire, timers fire or come down a level.
//!
//! From bucket to bucket in order of expiration, never tick by tick. Of two buckets that expire
//! together the one on the higher level goes first: what it holds for this very tick belongs
//! into the other.
//!
//! *Invariant*: after every timer that is taken out, before the sink is called, the wheel is
//! whole. So a sink that panics loses nothing else, and `pop_due` may leave the rest of a bucket
//! for later. The same holds after every timer that comes down, where `advance_within` stops.
//!
//! *Tested by*: `tests/hierarchy.rs` (order, jumps, panics), `tests/oracle.rs`.

use crate::Tick;

use super::entry::Entry;
use super::filing::Bucket;
use super::key::Key;
use super::lists::Lists;
use super::wheel::Wheel;

/// What comes next, by a certain time.
enum Next {
    /// A bucket of level 1, which expires now.
    Due(u32),
    /// Nothing.
    Later,
    /// The rest of a bucket that comes down: a limit has been reached.
    Cut,
}

/// What a timer that comes down counts in a limit if it begins a block: most of that was not
/// touched for long, and costs some misses of the cache.
const BLOCK_COUNTS: usize = 8;

// === impl Wheel ===

impl<T> Wheel<T> {
    /// Moves time to `now` and hands every timer whose deadline has come to `sink`: its key, its
    /// deadline and its payload. Returns their number. The keys name nothing any more; they are
    /// there to be compared with keys that the caller holds.
    ///
    /// Timers come in order of their deadlines, and in no particular order within one tick. A
    /// timer that was inserted after its deadline counts as due when it was inserted.
    ///
    /// Time does not go back: a time before [`Wheel::now`] does nothing. Time ends at
    /// [`Tick::LAST`].
    ///
    /// Takes constant time for each timer that fires and for each level that a timer comes down on
    /// the way, and no time for empty ticks. Many timers may come down at once:
    /// [`advance_within`](Wheel::advance_within) has a limit.
    ///
    /// # Panics
    /// If the sink panics. The timer that it was given is gone then. All others are still in the
    /// wheel, and the next `advance` continues from there.
    ///
    /// ```
    /// use tickless_wheel::{Tick, Wheel};
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
        self.advance_on(now, usize::MAX, sink)
    }

    /// As [`advance`](Wheel::advance), but does no more than `most` steps: a step for each timer
    /// that fires, and for each that comes down a level on the way. So this takes a bounded time,
    /// however many timers are pending.
    ///
    /// If something is left to do, [`next_expiration`](Wheel::next_expiration) is not after `now`
    /// afterwards, and another call goes on from there: also if this one has returned less than
    /// `most`, or zero. Until then [`Wheel::now`] is the time that was reached. All timers that are
    /// left can be cancelled and reset.
    ///
    /// When a bucket of a higher level expires, all of its timers come down. With a million timers
    /// whose deadlines are near each other, that takes some 50 ms. A loop that has other work to do
    /// in between calls this. A limit of a thousand takes some 30 µs, and what the sink does with
    /// the timers. A timer that begins a block of cells in the bucket that it comes down to counts
    /// eight in the limit. An advance allocates nothing, unless
    /// [`shrink_to_fit`](Wheel::shrink_to_fit) has given memory back since.
    ///
    /// # Panics
    /// As [`advance`](Wheel::advance).
    ///
    /// ```
    /// use tickless_wheel::{Tick, Wheel};
    ///
    /// let mut wheel = Wheel::default();
    /// for id in 0..1_000 {
    ///     wheel.insert(Tick::new(70_000), id);
    /// }
    /// let now = Tick::new(80_000);
    /// let (mut calls, mut fired) = (0, 0);
    /// while wheel.next_expiration().is_some_and(|next| next <= now) {
    ///     fired += wheel.advance_within(now, 100, |_, _, _id| {});
    ///     calls += 1;
    ///     // Here the loop looks at its sockets.
    /// }
    /// assert_eq!(fired, 1_000);
    /// assert!(calls >= 20, "each has fired, and has come down before");
    /// ```
    #[inline]
    pub fn advance_within(
        &mut self,
        now: Tick,
        most: usize,
        sink: impl FnMut(Key, Tick, T),
    ) -> usize {
        self.advance_on(now, most, sink)
    }

    /// An advance on which something may expire.
    #[inline(never)]
    fn advance_on(&mut self, now: Tick, most: usize, mut sink: impl FnMut(Key, Tick, T)) -> usize {
        let now = now.min(Tick::LAST);
        let (mut fired, mut left) = (0, most);
        while now >= self.now && left > 0 {
            match self.come_to_due(now, &mut left) {
                Next::Due(number) => {
                    while left > 0 {
                        let Some(entry) = self.pop_from(number) else { break };
                        let Entry { deadline, key, payload } = entry;
                        (fired, left) = (fired + 1, left - 1);
                        sink(key, deadline, payload);
                    }
                    if !self.rings.lists.has_any(number) {
                        self.look_on();
                    }
                }
                Next::Later => {
                    self.now = now;
                    break;
                }
                Next::Cut => break,
            }
        }
        fired
    }

    /// Removes the next timer whose deadline has come by `now` and returns its key, its deadline
    /// and its payload. Once there is none left, this moves time to `now` and returns `None`.
    ///
    /// This is [`advance`](Wheel::advance) one timer at a time, in the same order. All other timers
    /// stay in the wheel: between two calls they can be cancelled and reset, and new ones can be
    /// inserted. In the meantime [`Wheel::now`] is the time at which the last one was due, so a
    /// timer that is inserted for a time before `now` fires in the same loop.
    ///
    /// Takes constant time, plus the same as `advance` for timers that come down a level:
    /// [`pop_within`](Wheel::pop_within) has a limit.
    ///
    /// ```
    /// use tickless_wheel::{Tick, Wheel};
    ///
    /// let mut wheel = Wheel::default();
    /// let first = wheel.insert(Tick::new(20), "flush");
    /// let second = wheel.insert(Tick::new(30), "retry");
    /// let now = Tick::new(1_000);
    /// assert_eq!(wheel.pop_due(now), Some((first, Tick::new(20), "flush")));
    /// // The first task has made the second one superfluous.
    /// assert_eq!(wheel.cancel(second), Some("retry"));
    /// assert_eq!(wheel.pop_due(now), None);
    /// assert_eq!(wheel.now(), now);
    /// ```
    #[inline]
    pub fn pop_due(&mut self, now: Tick) -> Option<(Key, Tick, T)> {
        if now < self.rings.hint {
            self.now = self.now.max(now);
            return None;
        }
        let mut all = usize::MAX;
        self.pop_on(now, &mut all)
    }

    /// As [`pop_due`](Wheel::pop_due), for a loop that does no more than `left` steps, counted as
    /// in [`advance_within`](Wheel::advance_within). What this call does is taken off `left`. At
    /// zero this returns `None`, and [`next_expiration`](Wheel::next_expiration) tells whether
    /// something is left to do, as after `advance_within`.
    ///
    /// ```
    /// use tickless_wheel::{Tick, Wheel};
    ///
    /// let mut wheel = Wheel::default();
    /// for id in 0..1_000 {
    ///     wheel.insert(Tick::new(70_000), id);
    /// }
    /// let now = Tick::new(80_000);
    /// let mut fired = 0;
    /// while wheel.next_expiration().is_some_and(|next| next <= now) {
    ///     let mut left = 100;
    ///     while let Some((_key, _deadline, _id)) = wheel.pop_within(now, &mut left) {
    ///         fired += 1;
    ///     }
    ///     // Here the loop looks at its sockets.
    /// }
    /// assert_eq!(fired, 1_000);
    /// ```
    #[inline]
    pub fn pop_within(&mut self, now: Tick, left: &mut usize) -> Option<(Key, Tick, T)> {
        if now < self.rings.hint {
            self.now = self.now.max(now);
            return None;
        }
        self.pop_on(now, left)
    }

    /// A pop on which something may expire.
    #[inline(never)]
    fn pop_on(&mut self, now: Tick, left: &mut usize) -> Option<(Key, Tick, T)> {
        let now = now.min(Tick::LAST);
        if now < self.now || *left == 0 {
            return None;
        }
        let number = match self.come_to_due(now, left) {
            // What came down has used up the limit.
            Next::Cut => return None,
            Next::Due(_) if *left == 0 => return None,
            Next::Due(number) => number,
            Next::Later => {
                self.now = now;
                return None;
            }
        };
        *left -= 1;
        let Entry { deadline, key, payload } = self.pop_from(number)?;
        if !self.rings.lists.has_any(number) {
            self.look_on();
        }
        Some((key, deadline, payload))
    }

    /// Moves time to the first bucket of level 1 that holds a timer and expires by `now`, and
    /// returns its number. On the way, at most `left` timers come down.
    #[inline]
    fn come_to_due(&mut self, now: Tick, left: &mut usize) -> Next {
        if now < self.rings.hint {
            return Next::Later;
        }
        let Bucket { number, expiration } = self.rings.soonest();
        if number == 0 {
            return self.come_to_next(now, left);
        }
        self.rings.hint = expiration;
        if expiration > now {
            return Next::Later;
        }
        self.now = expiration;
        Next::Due(number)
    }

    /// The bucket of the present is empty. It was the last of those that expire together.
    #[inline]
    fn look_on(&mut self) {
        self.rings.hint = self.now.saturating_add(1);
        self.rings.hint = self.rings.soonest().expiration;
    }

    /// Lets the buckets of higher levels that are next to expire come down until one of level 1
    /// is, and names that one, which expires now. At most `left` timers come down: time stays where
    /// a bucket expires that is not empty yet, and so it is found again.
    #[inline(never)]
    fn come_to_next(&mut self, now: Tick, left: &mut usize) -> Next {
        loop {
            let Some(place) = self.rings.next(self.now) else {
                self.rings.hint = Tick::NEVER;
                return Next::Later;
            };
            self.rings.hint = place.expiration;
            if place.expiration > now {
                return Next::Later;
            }
            debug_assert!(place.expiration >= self.now, "a bucket was passed over");
            self.now = place.expiration;
            let number = self.rings.number(place);
            if place.level == 1 {
                return Next::Due(number);
            }
            self.cascade(number, place.level, left);
            if self.rings.lists.has_any(number) {
                return Next::Cut;
            }
            if place.level == 2 {
                // The next timer is usually among those that came down.
                let bucket = self.rings.soonest_below();
                self.rings.hint = bucket.expiration;
                if bucket.expiration > now {
                    return Next::Later;
                }
                if bucket.number > 0 {
                    self.now = bucket.expiration;
                    return Next::Due(bucket.number);
                }
            }
        }
    }

    /// The time at which [`advance`](Wheel::advance) has something to do next: the expiration of
    /// the earliest bucket that is not empty. `None` if nothing will ever fire.
    ///
    /// The loop may sleep until then: an `advance` to an earlier time does nothing, and no deadline
    /// is earlier. It is the earliest deadline itself if that timer is on level 1. If not, it may
    /// be the start of the bucket that holds the timer, which then comes down a level. (A timer
    /// that was filed when it was far stays on its level until its bucket expires.) A single timer
    /// wakes the loop at most once per level. If timers are due already, it is not after
    /// [`Wheel::now`].
    ///
    /// Takes time for each level in use.
    ///
    /// ```
    /// use tickless_wheel::{Geometry, Tick, Wheel};
    ///
    /// // Level 2 has buckets of 20 ticks.
    /// let mut wheel = Wheel::new(Geometry::new(20, 20)?);
    /// wheel.insert(Tick::new(110), ());
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(100)));
    /// assert_eq!(wheel.advance(Tick::new(100), |_, _, _| {}), 0);
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(110)));
    /// # Ok::<(), tickless_wheel::GeometryError>(())
    /// ```
    pub fn next_expiration(&self) -> Option<Tick> {
        match self.rings.soonest() {
            Bucket { number: 0, .. } => self.rings.next(self.now).map(|place| place.expiration),
            bucket => Some(bucket.expiration),
        }
    }

    /// The timer that expires next: its key and its deadline. `None` if nothing will ever fire.
    /// Of several that are due together it is any one.
    ///
    /// Takes time for each level in use if no bucket of a higher level expires before the timer. If
    /// one does, this looks at every timer in that bucket, and in at most one bucket of each other
    /// level. To know how long a loop may sleep, [`next_expiration`](Wheel::next_expiration) is
    /// cheaper.
    ///
    /// ```
    /// use tickless_wheel::{Tick, Wheel};
    ///
    /// let mut wheel = Wheel::default();
    /// wheel.insert(Tick::new(70_000), "close");
    /// let ping = wheel.insert(Tick::new(66_000), "ping");
    /// assert_eq!(wheel.peek(), Some((ping, Tick::new(66_000))));
    /// assert!(wheel.next_expiration() < Some(Tick::new(66_000)), "both come down a level first");
    /// ```
    pub fn peek(&self) -> Option<(Key, Tick)> {
        let (_, entry) = self.rings.earliest(self.now, usize::MAX)?;
        entry.map(|entry| (entry.key, entry.deadline))
    }

    /// As [`peek`](Wheel::peek), in constant time: this looks at no more than `most` timers of a
    /// bucket of a higher level. Returns the time at which the next timer is due, and its key.
    ///
    /// If a bucket in which it might be holds more timers than that, this may return the time at
    /// which that bucket expires, and no key. No timer is due before.
    ///
    /// ```
    /// use tickless_wheel::{Tick, Wheel};
    ///
    /// let mut wheel = Wheel::default();
    /// let ping = wheel.insert(Tick::new(66_000), "ping");
    /// wheel.insert(Tick::new(70_000), "close");
    /// assert_eq!(wheel.peek_within(2), Some((Tick::new(66_000), Some(ping))));
    /// assert_eq!(wheel.peek_within(1), Some((Tick::new(65_536), None)));
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(65_536)));
    /// ```
    pub fn peek_within(&self, most: usize) -> Option<(Tick, Option<Key>)> {
        let (due, entry) = self.rings.earliest(self.now, most)?;
        Some((due, entry.map(|entry| entry.key)))
    }

    /// Takes the last timer out of the bucket `number`, of level 1.
    #[inline]
    fn pop_from(&mut self, number: u32) -> Option<Entry<T>> {
        let (entry, left) = self.rings.lists.pop(number)?;
        debug_assert!(entry.deadline <= self.now, "early");
        if left {
            self.rings.leave_block(number);
        }
        self.keys.take(entry.key);
        Some(entry)
    }

    /// Files what is in the bucket `number`, of a higher level, anew, further down: as many timers
    /// as are `left` of a limit.
    fn cascade(&mut self, number: u32, level: u8, left: &mut usize) {
        self.rings.lists.prefetch(number);
        while *left > 0 && self.rings.lists.has_any(number) {
            // One block ahead: while this one is filed, the next comes, and the places in the
            // table of keys that are written on the way.
            self.rings.lists.prefetch_below(number);
            self.rings.lists.last_block(number).for_each(|entry| self.keys.prefetch(entry.key));
            self.cascade_block(number, level, left);
        }
    }

    /// Files the last block of the bucket `number` anew, or as many of its timers as are `left`.
    fn cascade_block(&mut self, number: u32, level: u8, left: &mut usize) {
        while *left > 0 {
            let Some((entry, is_first)) = self.rings.lists.pop(number) else { break };
            let key = entry.key;
            debug_assert!(entry.deadline >= self.now, "a late timer is on level 1");
            if is_first {
                self.rings.leave_block(number);
            }
            let cell = match level {
                // All of it is due within what level 1 reaches.
                2 => self.rings.push_lowest(entry),
                _ => self.rings.push(entry, self.now),
            };
            debug_assert!(self.rings.lists.list_of(cell) < number, "a cascade makes progress");
            self.keys.moved(key, cell);
            *left =
                left.saturating_sub(if Lists::<T>::begins_block(cell) { BLOCK_COUNTS } else { 1 });
            if is_first {
                break;
            }
        }
    }
}
