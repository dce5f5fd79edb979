//! Time moves over a hashed wheel: one slot per tick is gone through.
//!
//! *Invariant*: after every timer that is taken out, before the sink is called, the wheel is whole,
//! and a walk from `next` on finds everything else that is due. So a sink that panics loses nothing
//! else, and `pop_due` may leave the rest of a tick for later.
//!
//! *Tested by*: `tests/hashed.rs` (order, leaps, panics), `tests/oracle.rs`.

use alloc::vec::Vec;

use crate::Tick;

use super::entry::Entry;
use super::hashed::HashedWheel;
use super::key::Key;

// === impl HashedWheel ===

impl<T> HashedWheel<T> {
    /// Moves time to `now` and hands every timer whose deadline has come to `sink`: its key, its
    /// deadline and its payload. Returns their number. The keys name nothing any more; they are
    /// there to be compared with keys that the caller holds.
    ///
    /// Timers come in order of their deadlines, and in no particular order within one tick. A
    /// timer that was inserted after its deadline counts as due when it was inserted.
    ///
    /// Time does not go back: a time before [`HashedWheel::now`] does nothing. Time ends at
    /// [`Tick::LAST`].
    ///
    /// Goes through one slot per tick and looks at every timer in it. If time leaps by more ticks
    /// than there are slots, it goes through each slot once. The timers that fire then come from
    /// all slots and are sorted first, which takes memory for a deadline and a key of each.
    /// Without pending timers it goes through no slot.
    ///
    /// # Panics
    /// If the sink panics. The timer that it was given is gone then. All others are still in the
    /// wheel, and the next `advance` continues from there.
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

    /// Removes the next timer whose deadline has come by `now` and returns its key, its deadline
    /// and its payload. Once there is none left, this moves time to `now` and returns `None`.
    ///
    /// This is [`advance`](HashedWheel::advance) one timer at a time, in the same order. All other
    /// timers stay in the wheel: between two calls they can be cancelled and reset, and new ones
    /// can be inserted. In the meantime [`HashedWheel::now`] is the time at which the last one was
    /// due, so a timer that is inserted for a time before `now` fires in the same loop.
    ///
    /// Takes constant time while timers of the same tick are left. To find the next tick with
    /// timers, it goes through one slot per tick and looks at every timer in it. For a leap of
    /// several rounds, `advance` costs less: it goes through each slot once.
    ///
    /// ```
    /// use tickless_wheel::{HashedWheel, Tick};
    ///
    /// let mut wheel = HashedWheel::default();
    /// let first = wheel.insert(Tick::new(20), "flush");
    /// let second = wheel.insert(Tick::new(30), "retry");
    /// let now = Tick::new(1_000);
    /// assert_eq!(wheel.pop_due(now), Some((first, Tick::new(20), "flush")));
    /// // The first task has made the second one superfluous.
    /// assert_eq!(wheel.cancel(second), Some("retry"));
    /// assert_eq!(wheel.pop_due(now), None);
    /// ```
    pub fn pop_due(&mut self, now: Tick) -> Option<(Key, Tick, T)> {
        let now = now.min(Tick::LAST);
        if now < self.now {
            return None;
        }
        if !self.lists.has_any(self.late()) {
            let Some(due) = self.earliest_by(now).map(|entry| entry.deadline) else {
                (self.now, self.next) = (now, now.saturating_add(1));
                return None;
            };
            self.collect(due);
        }
        let (Entry { deadline, key, payload }, left) = self.lists.pop(self.late())?;
        self.settle(key, left.then_some(self.late()));
        Some((key, deadline, payload))
    }

    /// The timer that expires next: its key and its deadline. `None` if nothing will ever fire.
    /// Of several that are due together it is any one.
    ///
    /// Takes as much time as [`next_expiration`](HashedWheel::next_expiration).
    pub fn peek(&self) -> Option<(Key, Tick)> {
        let earliest = self.lists.last(self.late()).or_else(|| self.earliest_by(Tick::LAST));
        earliest.map(|entry| (entry.key, entry.deadline))
    }

    /// The time at which the earliest timer is due: its deadline, or [`now`](HashedWheel::now) if
    /// that has passed. `None` if nothing will ever fire. An `advance` to an earlier time does
    /// nothing.
    ///
    /// This design has no fast way to find it. The search goes through the slots from the present
    /// on, and looks at every timer in them, until it finds one that is due within the present
    /// round. If there is none, it takes time for every slot and every pending timer. A loop that
    /// would call this often should advance at each tick, or use a [`Wheel`](super::Wheel).
    ///
    /// ```
    /// use tickless_wheel::{HashedWheel, Tick};
    ///
    /// let mut wheel = HashedWheel::default();
    /// assert_eq!(wheel.next_expiration(), None);
    /// wheel.insert(Tick::new(70_000), ());
    /// wheel.insert(Tick::NEVER, ());
    /// assert_eq!(wheel.next_expiration(), Some(Tick::new(70_000)));
    /// ```
    pub fn next_expiration(&self) -> Option<Tick> {
        self.peek().map(|(_, deadline)| deadline.max(self.now))
    }

    /// The earliest timer in a slot, if it is due by `last`.
    fn earliest_by(&self, last: Tick) -> Option<&Entry<T>> {
        let mut earliest: Option<&Entry<T>> = None;
        let slots = if self.is_empty() { 0 } else { u64::from(self.slots) };
        for ahead in 0..slots {
            let at = self.next.saturating_add(ahead);
            // No timer in the slot of a later tick is due before that.
            if at > last || earliest.is_some_and(|entry| entry.deadline <= at) {
                break;
            }
            let here = self.lists.timers(self.slot(at)).min_by_key(|entry| entry.deadline);
            let is_earlier = |here: &&Entry<T>| {
                here.deadline <= last && earliest.is_none_or(|entry| here.deadline < entry.deadline)
            };
            earliest = here.filter(is_earlier).or(earliest);
        }
        earliest
    }

    /// Moves time to `due`, the deadline of the earliest timers, and files these among the late
    /// ones, from where they are popped one by one.
    fn collect(&mut self, due: Tick) {
        (self.now, self.next) = (due, due.saturating_add(1));
        let mut end = self.lists.end_of(self.slot(due));
        while let Some((cell, key)) = self.lists.last_due(end, due) {
            end = self.lists.end_before(cell);
            let taken = self.lists.take_from(cell, &mut self.keys, key);
            let (entry, left) = taken.expect("a timer that was just found is there");
            if let Some(list) = left {
                self.lists.leave_block(list);
            }
            let cell = self.push(entry);
            self.keys.moved(key, cell);
        }
    }

    /// Hands out the late timers.
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
