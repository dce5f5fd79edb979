//! Time moves over a hashed wheel: one slot per tick is gone through.
//!
//! *Invariant*: before every call of the sink the wheel is whole, without the timer that the
//! sink is given, and a walk from `next` on finds whatever else is due. So a sink that panics
//! loses nothing else.
//!
//! *Tested by*: `tests/local_hashed.rs` (order, leaps, panics), `tests/local_oracle.rs`.

use crate::time::Tick;

use super::hashed::HashedWheel;
use super::key::Key;

// === impl HashedWheel ===

impl<T> HashedWheel<T> {
    /// Moves time to `now` and hands every timer whose deadline has come to `sink`, with the key
    /// that it had (to compare with keys one holds; it names nothing any more) and its deadline.
    /// Returns how many there were.
    ///
    /// Timers come in order of their deadlines, and in no particular order within one tick. One
    /// that was inserted after its deadline had passed counts as due when it was inserted.
    ///
    /// Time does not go back: an earlier `now` than [`HashedWheel::now`] does nothing, and it ends
    /// at [`Tick::LAST`].
    ///
    /// Goes through one slot per tick, and takes time for every timer in it, due or not. If time
    /// leaps by more ticks than there are slots, each slot is gone through once; as what is due
    /// comes from all of them then, it is sorted, which takes memory for a deadline and a key, and
    /// the time of a sort, for each that fires. Without pending timers no slot is gone through.
    ///
    /// # Panics
    /// When the sink does. The timer that it was given is gone then. All others are still in the
    /// wheel, those not yet due included, and the next `advance` goes on from there.
    ///
    /// ```
    /// use tickless::local::HashedWheel;
    /// use tickless::Tick;
    ///
    /// let mut wheel = HashedWheel::default();
    /// for at in [500, 20, 70_000] {
    ///     wheel.insert(Tick::new(at), at);
    /// }
    /// let mut fired = Vec::new();
    /// assert_eq!(wheel.advance(Tick::new(1_000), |_, _, at| fired.push(at)), 2);
    /// assert_eq!(fired, [20, 500]);
    /// ```
    #[inline]
    pub fn advance(&mut self, now: Tick, mut sink: impl FnMut(Key, Tick, T)) -> usize {
        let now = now.min(Tick::LAST);
        if now < self.now {
            return 0;
        }
        let pending = self.len();
        self.fire_late(&mut sink);
        if self.is_empty() {
            // Nothing is in any slot.
        } else if now.get().saturating_sub(self.next.get()) >= u64::from(self.slots) {
            self.leap(now, &mut sink);
        } else {
            while self.next <= now {
                self.visit(&mut sink);
                self.next = self.next.saturating_add(1);
            }
        }
        self.now = now;
        self.next = now.saturating_add(1);
        pending - self.len()
    }

    /// When the earliest timer is due: its deadline, or [`now`](HashedWheel::now) if that has
    /// passed. `None` if nothing will ever fire.
    ///
    /// Sleeping until then is right, and no advance to an earlier time does anything.
    ///
    /// The design has no quick answer. The slots are searched from the present on, and all timers
    /// in them looked at, up to one that is due within the present round; if there is none, this
    /// takes time for every slot and every pending timer. Whoever asks often is better served by
    /// advancing at each tick, or by a [`Wheel`](super::Wheel).
    ///
    /// ```
    /// use tickless::local::HashedWheel;
    /// use tickless::Tick;
    ///
    /// let mut wheel = HashedWheel::default();
    /// assert_eq!(wheel.next_expiration(), None);
    /// wheel.insert(Tick::new(70_000), ());
    /// wheel.insert(Tick::NEVER, ());
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(70_000)));
    /// ```
    pub fn next_expiration(&self) -> Option<Tick> {
        if self.lists.has_any(self.late()) {
            return Some(self.now);
        }
        let mut earliest = Tick::NEVER;
        for ahead in 0..u64::from(self.slots) {
            let at = self.next.saturating_add(ahead);
            if earliest <= at {
                break;
            }
            let here = self.lists.timers(self.slot(at)).map(|entry| entry.deadline).min();
            earliest = here.map_or(earliest, |here| here.min(earliest));
        }
        (earliest < Tick::NEVER).then_some(earliest)
    }

    /// Hands out what was late from the start.
    #[inline]
    fn fire_late(&mut self, sink: &mut impl FnMut(Key, Tick, T)) {
        while let Some((entry, left)) = self.lists.pop(self.late()) {
            self.settle(entry.key, left.then_some(self.late()));
            sink(entry.key, entry.deadline, entry.payload);
        }
    }

    /// Goes through the slot of `next` and hands out what is due there.
    #[inline]
    fn visit(&mut self, sink: &mut impl FnMut(Key, Tick, T)) {
        let mut end = self.lists.end_of(self.slot(self.next));
        while let Some((cell, key)) = self.lists.last_due(end, self.next) {
            end = self.lists.end_before(cell);
            self.now = self.next;
            self.fire(cell, key, sink);
        }
    }

    /// Hands out what is due by `now` in any slot, in order.
    #[inline(never)]
    fn leap(&mut self, now: Tick, sink: &mut impl FnMut(Key, Tick, T)) {
        let timers = (0..self.slots).flat_map(|slot| self.lists.timers(slot));
        let due = timers.filter(|entry| entry.deadline <= now);
        let mut due: Vec<(Tick, Key)> = due.map(|entry| (entry.deadline, entry.key)).collect();
        due.sort_unstable();
        for (deadline, key) in due {
            // Nothing that is left in a slot is due before: a walk may go on from here.
            (self.now, self.next) = (deadline, deadline);
            let cell = self.keys.home(key).expect("a pending timer has a home");
            self.fire(cell, key, sink);
        }
    }

    /// Hands out the timer of `key`, which lies at `cell`.
    #[inline]
    fn fire(&mut self, cell: u32, key: Key, sink: &mut impl FnMut(Key, Tick, T)) {
        let taken = self.lists.take_from(cell, &mut self.keys, key);
        let (entry, left) = taken.expect("a timer that was just found is there");
        debug_assert_eq!(entry.deadline, self.now, "neither early nor late");
        self.settle(key, left);
        sink(key, entry.deadline, entry.payload);
    }
}
