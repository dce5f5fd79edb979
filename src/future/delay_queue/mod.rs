//! A queue whose items come out when their deadlines have passed.
//!
//! [`DelayQueue`] is the queue. It returns each item in an [`Expired`], and until then the item is
//! known by its [`Key`].
//!
//! # How it waits
//!
//! The items lie in a [`Wheel`] that counts the ticks of the engine. One timer of the engine wakes
//! the task, at the tick of the earliest item. So a deadline is rounded up to a tick once, and a
//! queue of a million items is one timer to the engine.
//!
//! - `queue_timer` is that timer.
//! - `expired` is what comes out.
//! - `polling` is how the queue waits.
//!
//! *Owner*: one thread at a time, by `&mut`.
//!
//! *Invariants*
//! - Each item is due at `earliest` or later, or has been due since `reached`.
//! - If `first` is there, it is due at `earliest`.
//! - While the timer is set, it is set for `earliest` or earlier, and `reached` is before that.
//!
//! *Tested by*: `tests/suite/delay_queue/expiry.rs`, `tests/suite/delay_queue/items.rs`,
//! `tests/suite/delay_queue/wakes.rs`, `tests/oracles/delay_queue.rs`,
//! `tests/suite/delay_queue/ends.rs`, `tests/races/delay_queue.rs`.

mod polling;
mod queue_timer;

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::engine::{Engine, EngineRef, When};
#[doc(inline)]
pub use crate::local::Key;
use crate::local::{Geometry, Wheel};
use crate::time::{Clock, Scale, Tick};

pub use polling::Expired;
use queue_timer::QueueTimer;

/// A queue whose items come out when their deadlines have passed, in the order of these (see
/// [below](Self#order)).
///
/// An item is inserted with a delay or a deadline, and comes out of [`expired`](Self::expired),
/// [`poll_expired`](Self::poll_expired) or the [`Stream`](futures_core::Stream): never before its
/// deadline, and later than that by less than a tick of the engine or its slack (plus the time that
/// the system and the executor need to wake the task). Until then it can be
/// [removed](Self::remove) or [reset](Self::reset) by its [`Key`], also when its deadline has
/// passed already.
///
/// One task owns the queue, and all its items are one timer to the engine. This is for the many
/// timeouts of one task: the entries of its cache, its idle connections, its requests under way.
/// Items need not be `Send`. Timers that threads share belong into the [`Engine`] itself, which has
/// no lock that they would wait for.
///
/// An insert, a removal and a reset cost about as much as in a [`Wheel`], plus a reading of the
/// clock where a delay is given: constant time, and no allocation besides the wheel's memory, which
/// is reused. The task is woken when an item is due. It may be woken for nothing, once for each
/// bucket of the wheel, if the earliest item was removed or moved and the bucket holds more than 32
/// items, or if that holds more than a thousand.
///
/// Dropping the queue drops the items and cancels its timer. A queue does not keep its engine
/// alive.
///
/// ```
/// use std::time::Duration;
/// use tickless::future::DelayQueue;
///
/// pollster::block_on(async {
///     let mut leases = DelayQueue::new();
///     leases.insert("printer", Duration::from_millis(6));
///     let scanner = leases.insert("scanner", Duration::from_millis(2));
///     leases.insert("plotter", Duration::from_millis(4));
///     // It was renewed.
///     leases.reset(scanner, Duration::from_millis(8));
///     while let Some(lease) = leases.expired().await {
///         println!("the lease of the {} has expired", lease.get_ref());
///     }
/// });
/// ```
///
/// # Order
///
/// Items come out in the order of their deadlines, each rounded up to a tick of the engine; those
/// of one tick come out in no particular order. An item whose deadline had passed when it was
/// inserted or reset is due at once: it comes out anywhere between the place of its deadline and
/// the place of the time of that call. So several such items may come out in any order. If their
/// order matters, sort them and handle them without the queue.
///
/// # When it is empty
///
/// An empty queue returns `None`, at once: a loop ends when all items have come out. A loop that
/// also inserts items skips the queue while it is empty, as in
/// `select! { Some(item) = queue.expired() => .., request = requests.recv() => .. }`.
///
/// A queue may also be shared by tasks, behind a mutex. The task that polled last is then woken
/// when an item is due, when an item is inserted or reset to be due earlier than all others, when
/// the last item is removed, and, if it found the queue empty, when an item is inserted.
///
/// # When the engine stops
///
/// Items whose deadlines have passed come out. If others are pending, nothing will wake the task
/// when they are due: [`poll_expired`](Self::poll_expired) and [`expired`](Self::expired) panic,
/// [`poll_try_expired`](Self::poll_try_expired) and [`try_expired`](Self::try_expired) return an
/// error, and the stream ends. They stay in the queue, where their keys find them.
pub struct DelayQueue<T> {
    wheel: Wheel<T>,
    /// The engine's.
    clock: Clock,
    /// The engine's.
    scale: Scale,
    /// The clock is known to have reached this.
    reached: Tick,
    earliest: Tick,
    /// Absent if it is not known which item is due first.
    first: Option<Key>,
    timer: QueueTimer,
    /// The task that found the queue empty when it polled last, as long as it is empty.
    idle: Option<Waker>,
    /// Since the last look at the clock, an item was inserted or reset. Its deadline may have
    /// passed before that.
    has_new: bool,
    /// The last poll has returned an item. Others may be due as well.
    drains: bool,
    /// See `future/coop.rs`.
    is_put_off: bool,
}

/// As [`Wheel::default`]: what a wheel of one thread gains most from.
const SLOTS: u32 = 256;

// === impl Engine: delay queues ===

impl Engine {
    /// As [`DelayQueue::new`], on this engine.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let mut queue = engine.delay_queue();
    /// queue.insert("an hour", Duration::from_secs(3600));
    /// engine.advance(Duration::from_secs(3600))?;
    /// let expired = pollster::block_on(queue.expired());
    /// assert_eq!(expired.unwrap().into_inner(), "an hour");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delay_queue<T>(&self) -> DelayQueue<T> {
        DelayQueue::on(EngineRef::new(self))
    }
}

// === impl DelayQueue ===

impl<T> DelayQueue<T> {
    /// Returns an empty queue on the [ambient engine](Engine::enter). It allocates nothing before
    /// the first item.
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    #[track_caller]
    pub fn new() -> DelayQueue<T> {
        DelayQueue::on(EngineRef::ambient())
    }

    /// Returns an empty queue on the [ambient engine](Engine::enter), with room for `capacity`
    /// items.
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use. If that much memory cannot be
    /// addressed.
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> DelayQueue<T> {
        let mut queue = DelayQueue::new();
        queue.reserve(capacity);
        queue
    }

    fn on(engine: EngineRef) -> DelayQueue<T> {
        let gone = || {
            let scale = Scale::new(Duration::from_millis(1)).expect("a width that fits");
            (Clock::instant(), scale)
        };
        // If the engine is gone, a poll says so.
        let (clock, scale) = engine.time().unwrap_or_else(gone);
        let reached = scale.floor(clock.now_ns());
        let geometry = Geometry::new(SLOTS, SLOTS).expect("constants that are in bounds");
        DelayQueue {
            wheel: Wheel::with_start(geometry, reached),
            clock,
            scale,
            reached,
            earliest: Tick::NEVER,
            first: None,
            timer: QueueTimer::new(engine),
            idle: None,
            has_new: false,
            drains: false,
            is_put_off: false,
        }
    }

    /// Inserts an item that is due at `when`: a [`Duration`] from this call, an [`Instant`] by the
    /// engine's clock, or a [`When`], which may have a slack. Returns its key.
    ///
    /// If the delay is too long to represent, or the engine is gone, the item never comes out, but
    /// can be removed and reset. An item whose deadline has passed is due at once; the
    /// [order](Self#order) of several such items is unspecified.
    ///
    /// If a task waits for the queue and the item is due earlier than all others, the task is woken
    /// in time, or at once if the item is due already. Takes constant time, except when memory
    /// grows.
    ///
    /// Items that are inserted again by a delay each time they come out, and once came out in the
    /// same tick, stay together. [`insert_at`](Self::insert_at) keeps them apart, at the old
    /// deadline plus the delay.
    ///
    /// # Panics
    /// If there is no room for another item: 2^32 - 1 are the limit, less some thousands. If the
    /// task is woken and its waker panics.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::future::DelayQueue;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("answer", Duration::from_secs(60));
    /// assert_eq!(queue.remove(key), Some("answer"));
    /// assert_eq!(queue.remove(key), None, "it is out");
    /// ```
    #[inline]
    pub fn insert(&mut self, value: T, when: impl Into<When>) -> Key {
        let tick = self.tick_of(when.into());
        self.insert_for(tick, value)
    }

    /// As [`insert`](Self::insert), with a deadline by the engine's clock. Reads no clock, unless
    /// a task waits and has to be woken earlier. If the engine is gone, the item still comes out of
    /// a poll after its deadline, but nothing wakes the task.
    #[inline]
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
        let tick = self.tick_at(deadline);
        self.insert_for(tick, value)
    }

    /// Takes the item that `key` names out of the queue, whether its deadline has passed or not.
    /// Returns `None` if it has come out already.
    ///
    /// If that was the last item, and a task waits for the queue, the task is woken. Takes constant
    /// time.
    ///
    /// # Panics
    /// If the task is woken and its waker panics.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let value = self.wheel.cancel(key)?;
        if self.first == Some(key) {
            self.first = None;
        }
        if self.wheel.is_empty() {
            self.became_empty();
        }
        Some(value)
    }

    /// Gives the item that `key` names another deadline, earlier or later, under the same rules as
    /// [`insert`](Self::insert), whether the old one has passed or not. The key stays the same.
    /// Returns `false` if the item has come out already.
    ///
    /// Takes constant time, except when memory grows.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let mut connections = engine.delay_queue();
    /// let idle = Duration::from_secs(30);
    /// let connection = connections.insert("a connection that is idle", idle);
    /// engine.advance(idle)?;
    /// // A packet has come in time: the item is due, but it has not come out.
    /// assert!(connections.reset(connection, idle));
    /// assert_eq!(connections.deadline(connection), Some(engine.now() + idle));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If a task that waits is woken and its waker panics.
    #[inline]
    pub fn reset(&mut self, key: Key, when: impl Into<When>) -> bool {
        let tick = self.tick_of(when.into());
        self.reset_to(tick, key)
    }

    /// As [`reset`](Self::reset), with a deadline by the engine's clock.
    #[inline]
    pub fn reset_at(&mut self, key: Key, deadline: Instant) -> bool {
        let tick = self.tick_at(deadline);
        self.reset_to(tick, key)
    }

    /// Drops all items. Their keys go stale; the memory stays. If there were any, and a task waits
    /// for the queue, the task is woken. Takes time for every item that there is room for.
    ///
    /// # Panics
    /// If dropping an item or waking the task panics. The items that are not dropped by then stay.
    pub fn clear(&mut self) {
        if self.wheel.is_empty() {
            return;
        }
        // That holds also if one of the calls panics.
        (self.earliest, self.first) = (Tick::ZERO, None);
        self.timer.ring();
        self.wheel.clear();
        self.earliest = Tick::NEVER;
    }

    /// Returns the key of the item that comes out next, or `None` if none ever will. Of several
    /// that are due at the same tick, or were due when they were inserted, it is any one.
    ///
    /// Takes constant time if no bucket of a higher level opens before the item is due. Otherwise
    /// this looks at every item of that bucket, of one bucket per level at most.
    pub fn peek(&self) -> Option<Key> {
        self.wheel.peek().map(|(key, _)| key)
    }

    /// Returns the deadline of the item that `key` names, rounded up to the engine's tick. Returns
    /// `None` if the item has come out, or if it never will. Takes constant time.
    pub fn deadline(&self, key: Key) -> Option<Instant> {
        self.instant_of(self.wheel.deadline(key)?)
    }

    /// Returns `true` if the item that `key` names is still in the queue. Takes constant time.
    pub fn contains(&self, key: Key) -> bool {
        self.wheel.contains(key)
    }

    /// Returns the number of items, with those that are due and have not come out. Takes constant
    /// time.
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns `true` if there is no item.
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Returns how many items there is memory for, those in the queue included.
    pub fn capacity(&self) -> usize {
        self.wheel.capacity()
    }

    /// Makes room for `additional` items.
    ///
    /// # Panics
    /// If that much memory cannot be addressed.
    pub fn reserve(&mut self, additional: usize) {
        self.wheel.reserve(additional);
    }

    /// Gives unused memory back to the allocator. Items keep their places, so unused memory that
    /// lies before the last of them stays. Keys keep their meaning. Takes time for every item that
    /// there is room for.
    pub fn shrink_to_fit(&mut self) {
        self.wheel.shrink_to_fit();
    }
}

impl<T> Default for DelayQueue<T> {
    /// As [`DelayQueue::new`].
    fn default() -> DelayQueue<T> {
        DelayQueue::new()
    }
}

// An item is never pinned.
impl<T> Unpin for DelayQueue<T> {}

debug! { impl[T] DelayQueue[T] {
    len = |this| this.len(),
    next = |this| this.peek().and_then(|key| this.deadline(key)),
} }
