//! The methods that both wheels have, so that one can be compared with the other.
//!
//! *Tested by*: `tests/both.rs`, `tests/oracle.rs` (every call that the model makes
//! goes through the trait), `benches/wheel/main.rs`.

use crate::Tick;

use super::drain::Drain;
use super::hashed::HashedWheel;
use super::key::Key;
use super::view::Iter;
use super::wheel::Wheel;

/// A timing wheel for one thread, with payloads `T`: [`Wheel`] or [`HashedWheel`].
///
/// Both make the same promises: no timer fires early, each leaves exactly once, the key of a timer
/// that has left names no other, and timers fire in order of their deadlines. They differ in costs.
/// With *n* timers pending, *s* slots to a ring, and *l* levels, each *s* times as wide as the one
/// below:
///
/// | | [`Wheel`] | [`HashedWheel`] |
/// |---|---|---|
/// | design | a hierarchy of rings | one ring, several rounds |
/// | `insert`, `cancel`, `reset` | O(1) | O(1) |
/// | until a timer fires, it is | moved once per level | looked at once per round |
/// | firing it | O(1) | O(1); in a leap O(log *n*) |
/// | one tick, nothing due | O(1) | O(1 + *n* / *s*) on average |
/// | *t* ticks at once, nothing due | O(*l*), and what comes down | what min(*t*, *s*) slots hold |
/// | `next_expiration` | O(*l*) | O(*s* + *n*), unless it is soon |
/// | what it returns | the earliest deadline or before | the earliest deadline |
/// | `peek` | O(*l*), and its bucket if it is far | as `next_expiration` |
/// | `pop_due` | O(1), and what comes down | O(1), and what the slots up to it hold |
/// | memory beside timers, bytes | 4 *s* *l* | 4 *s* |
///
/// A *leap* is an `advance` by more ticks than there are slots. The hashed wheel suits timers that
/// are due within a round or a few, in a loop that wakes at every tick; or so few timers that
/// looking at all of them does not matter. For everything else, take the hierarchy.
/// Figures are in the repository's `PERF.md`.
///
/// The trait is sealed: it may gain methods.
///
/// ```
/// use tickless_wheel::{HashedWheel, Tick, TimingWheel, Wheel};
///
/// /// Runs three timeouts, of which one is cancelled.
/// fn story(wheel: &mut impl TimingWheel<&'static str>) -> Vec<&'static str> {
///     wheel.insert(Tick::new(70_000), "close");
///     let retry = wheel.insert(Tick::new(40), "retry");
///     wheel.insert(Tick::new(30), "ping");
///     wheel.cancel(retry);
///     let mut fired = Vec::new();
///     while let Some(wake_up) = wheel.next_expiration() {
///         wheel.advance(wake_up, |_, _, what| fired.push(what));
///     }
///     fired
/// }
///
/// assert_eq!(story(&mut Wheel::default()), ["ping", "close"]);
/// assert_eq!(story(&mut HashedWheel::default()), ["ping", "close"]);
/// ```
pub trait TimingWheel<T>: sealed::Sealed {
    /// Adds a timer that fires once time has reached `deadline`; at the next
    /// [`advance`](TimingWheel::advance) if it has already, and never if `deadline` is
    /// [`Tick::NEVER`]. Takes constant time, except when memory grows.
    ///
    /// # Panics
    /// If there is no room for another timer: at most 2^32 - 1 can be pending, less the empty
    /// places in the buckets' last blocks.
    fn insert(&mut self, deadline: Tick, payload: T) -> Key;

    /// Cancels the timer that `key` names and returns its payload. Returns `None` if it has fired
    /// or was cancelled already. Takes constant time.
    fn cancel(&mut self, key: Key) -> Option<T>;

    /// Moves the timer that `key` names to another deadline, earlier or later, under the same rules
    /// as [`insert`](TimingWheel::insert). Returns `false` if it has fired or was cancelled. Takes
    /// constant time, except when memory grows.
    fn reset(&mut self, key: Key, deadline: Tick) -> bool;

    /// The payload of the timer that `key` names, while that is pending. Takes constant time.
    fn get(&self, key: Key) -> Option<&T>;

    /// The deadline of the timer that `key` names, as it was given, while that is pending. Takes
    /// constant time.
    fn deadline(&self, key: Key) -> Option<Tick>;

    /// Moves time to `now` and hands every timer whose deadline has come to `sink`, with the key
    /// that it had and its deadline, in order of the deadlines; within one tick in no particular
    /// order. A timer that was inserted after its deadline counts as due when it was inserted.
    /// Returns their number. A time before [`now`](TimingWheel::now) does nothing. The
    /// [table](TimingWheel) says how long it takes.
    ///
    /// # Panics
    /// If the sink panics. The timer that it was given is gone then. All others are still in the
    /// wheel, and the next `advance` continues from there.
    fn advance(&mut self, now: Tick, sink: impl FnMut(Key, Tick, T)) -> usize;

    /// Removes the next timer whose deadline has come by `now`, in the order of
    /// [`advance`](TimingWheel::advance), and returns it. The rest stay pending. Once there is none
    /// left, this moves time to `now` and returns `None`.
    ///
    /// ```
    /// use tickless_wheel::{Tick, TimingWheel};
    ///
    /// /// Runs up to `budget` expired tasks. Returns whether these were all.
    /// fn run_some(wheel: &mut impl TimingWheel<fn()>, now: Tick, budget: usize) -> bool {
    ///     for _ in 0..budget {
    ///         let Some((_key, _deadline, task)) = wheel.pop_due(now) else { return true };
    ///         task();
    ///     }
    ///     false
    /// }
    /// # let mut wheel = tickless_wheel::Wheel::<fn()>::default();
    /// # wheel.insert(Tick::new(1), || ());
    /// # assert!(!run_some(&mut wheel, Tick::new(1), 1) && run_some(&mut wheel, Tick::new(1), 1));
    /// ```
    fn pop_due(&mut self, now: Tick) -> Option<(Key, Tick, T)>;

    /// The timer that expires next: its key and its deadline; any one of several that are due
    /// together. `None` if nothing will ever fire.
    fn peek(&self) -> Option<(Key, Tick)>;

    /// Every pending timer with its key and its deadline, in no particular order. Takes time for
    /// every timer that there is room for.
    fn iter(&self) -> Iter<'_, T>;

    /// The time until which the loop may sleep: an `advance` to an earlier time does nothing.
    /// `None` if nothing will ever fire. It is never after the earliest deadline. A [`Wheel`] may
    /// have to be woken before that, to bring timers down a level; a [`HashedWheel`] may have to
    /// look at every timer to find it.
    fn next_expiration(&self) -> Option<Tick>;

    /// Removes every pending timer, in no particular order. Dropping the iterator drops those that
    /// it has not yielded. Takes time for every timer that there is room for.
    fn drain(&mut self) -> Drain<'_, T>;

    /// The number of pending timers, including those for [`Tick::NEVER`]. Takes constant time.
    fn len(&self) -> usize;

    /// The time that the wheel has reached: the latest that it was told, or its start. While
    /// `pop_due` has timers left, the time at which the last one was due.
    fn now(&self) -> Tick;

    /// Whether no timer is pending. Takes constant time.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the timer that `key` names is pending. Takes constant time.
    fn contains(&self, key: Key) -> bool {
        self.deadline(key).is_some()
    }
}

mod sealed {
    /// Implemented by the wheels of this crate alone.
    pub trait Sealed {}
}

/// Both wheels have all of these as methods of their own.
macro_rules! timing_wheel {
    ($wheel:ident) => {
        impl<T> sealed::Sealed for $wheel<T> {}

        impl<T> TimingWheel<T> for $wheel<T> {
            #[inline]
            fn insert(&mut self, deadline: Tick, payload: T) -> Key {
                $wheel::insert(self, deadline, payload)
            }

            #[inline]
            fn cancel(&mut self, key: Key) -> Option<T> {
                $wheel::cancel(self, key)
            }

            #[inline]
            fn reset(&mut self, key: Key, deadline: Tick) -> bool {
                $wheel::reset(self, key, deadline)
            }

            fn get(&self, key: Key) -> Option<&T> {
                $wheel::get(self, key)
            }

            fn deadline(&self, key: Key) -> Option<Tick> {
                $wheel::deadline(self, key)
            }

            #[inline]
            fn advance(&mut self, now: Tick, sink: impl FnMut(Key, Tick, T)) -> usize {
                $wheel::advance(self, now, sink)
            }

            #[inline]
            fn pop_due(&mut self, now: Tick) -> Option<(Key, Tick, T)> {
                $wheel::pop_due(self, now)
            }

            fn peek(&self) -> Option<(Key, Tick)> {
                $wheel::peek(self)
            }

            fn iter(&self) -> Iter<'_, T> {
                $wheel::iter(self)
            }

            fn next_expiration(&self) -> Option<Tick> {
                $wheel::next_expiration(self)
            }

            fn drain(&mut self) -> Drain<'_, T> {
                $wheel::drain(self)
            }

            fn len(&self) -> usize {
                $wheel::len(self)
            }

            fn now(&self) -> Tick {
                $wheel::now(self)
            }
        }
    };
}

timing_wheel!(Wheel);
timing_wheel!(HashedWheel);
