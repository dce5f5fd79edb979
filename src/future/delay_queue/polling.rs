//! How a queue waits: what is due comes out, then the timer is set for the earliest item.
//!
//! The earliest deadline is known from inserts as long as nothing that is due first leaves. After
//! that it has to be looked for, and this happens in a poll, not when an item leaves: most items
//! that leave are followed by others before the next poll, and a task that is woken a little too
//! often costs less than a search each time. A search is limited, so that a bucket with a million
//! items does not cost a million steps each time that a short timeout comes and goes. Where the
//! limit is reached, the queue waits for a time that is not after the earliest deadline.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use futures_core::stream::{FusedStream, Stream};

use crate::engine::When;
use crate::future::{SleepError, coop};
use crate::local::Key;
use crate::time::Tick;

use super::DelayQueue;

/// An item that has come out of a [`DelayQueue`](super::DelayQueue), because its deadline has
/// passed.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::future::DelayQueue;
/// use tickless::future::delay_queue::Expired;
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let mut queue = engine.delay_queue();
/// let key = queue.insert("seven", Duration::from_secs(7));
/// engine.advance(Duration::from_secs(9))?;
/// let expired: Expired<&str> = pollster::block_on(queue.expired()).unwrap();
/// assert_eq!(expired.key(), key);
/// assert_eq!(expired.deadline(), engine.now() - Duration::from_secs(2));
/// assert_eq!(expired.into_inner(), "seven");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

/// How many items of a bucket a poll looks at while the task waits already: it is woken in time
/// whatever is found.
const GLANCE: usize = 32;

/// The same if the task has to be told when to wake up.
const SEARCH: usize = 1024;

// === impl DelayQueue ===

impl<T> DelayQueue<T> {
    /// Waits for the next item whose deadline passes, and takes it out. Returns `None` if the queue
    /// is empty.
    ///
    /// Cancel safe: if the future is dropped before it returns, no item is lost.
    ///
    /// # Panics
    /// Where [`try_expired`] returns an error.
    ///
    /// [`try_expired`]: Self::try_expired
    pub async fn expired(&mut self) -> Option<Expired<T>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// Polls for the next item, as [`expired`](Self::expired) does. If none is due, or if the queue
    /// is empty, the task is woken as [described above](Self#when-it-is-empty).
    ///
    /// # Panics
    /// As [`expired`](Self::expired).
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let expired = ready!(self.poll_try_expired(cx));
        Poll::Ready(expired.unwrap_or_else(|error| panic!("a delay queue cannot wait: {error}")))
    }

    /// As [`expired`](Self::expired), but returns an error instead of panicking.
    ///
    /// # Errors
    /// Items are pending, none is due, and the engine has stopped, or the calling thread runs one
    /// of its tasks and [must not wait](SleepError::Circular). They stay in the queue. Polling
    /// again returns those that have become due since.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::future::SleepError;
    ///
    /// let engine = Engine::new()?;
    /// let mut queue = engine.delay_queue();
    /// let key = queue.insert("answer", Duration::from_secs(5));
    /// engine.stop()?;
    /// assert_eq!(pollster::block_on(queue.try_expired()), Err(SleepError::Stopped));
    /// assert_eq!(queue.remove(key), Some("answer"));
    /// assert_eq!(pollster::block_on(queue.try_expired()), Ok(None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn try_expired(&mut self) -> Result<Option<Expired<T>>, SleepError> {
        poll_fn(|cx| self.poll_try_expired(cx)).await
    }

    /// Polls for the next item, as [`try_expired`](Self::try_expired) does.
    ///
    /// # Errors
    /// As [`try_expired`](Self::try_expired).
    pub fn poll_try_expired(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Expired<T>>, SleepError>> {
        if self.drains {
            ready!(coop::poll_proceed(&mut self.is_put_off, cx));
            self.drains = false;
        }
        loop {
            if let Some((key, tick, value)) = self.wheel.pop_due(self.reached) {
                self.drains = true;
                return Poll::Ready(Ok(Some(self.take_out(key, tick, value))));
            }
            if self.wheel.is_empty() {
                self.idle_on(cx.waker());
                return Poll::Ready(Ok(None));
            }
            self.find_first();
            let polled = self.timer.poll(self.earliest, cx.waker());
            if polled.is_pending() {
                coop::has_waited();
                if !self.has_new {
                    return Poll::Pending;
                }
            }
            // Whether an item is due, the clock can tell without the engine, which may be late.
            self.reached = self.reached.max(self.scale.floor(self.clock.now_ns()));
            self.has_new = false;
            if self.reached < self.earliest {
                ready!(polled)?;
            } else {
                self.timer.cancel();
            }
        }
    }

    #[inline]
    fn take_out(&mut self, key: Key, tick: Tick, value: T) -> Expired<T> {
        if self.first == Some(key) {
            self.first = None;
        }
        // The clock has reached it, so there is an instant, unless that clock counts what passed
        // before instants begin.
        let deadline = self.instant_of(tick).unwrap_or_else(Instant::now);
        Expired { value, deadline, key }
    }

    /// Nothing is due and something is pending: finds out what is due first, if that is not known
    /// or not found in a few steps.
    fn find_first(&mut self) {
        if self.first.is_some() {
            return;
        }
        let most = if self.earliest > self.reached { GLANCE } else { SEARCH };
        match self.wheel.peek_within(most) {
            Some((due, first)) => {
                self.earliest = self.earliest.max(due);
                self.first = first;
            }
            None => self.earliest = Tick::NEVER,
        }
    }

    /// The queue is empty: the task of `waker` is woken when that changes.
    #[cold]
    fn idle_on(&mut self, waker: &Waker) {
        self.earliest = Tick::NEVER;
        if !self.idle.as_ref().is_some_and(|idle| idle.will_wake(waker)) {
            let new = Some(waker.clone());
            drop(mem::replace(&mut self.idle, new));
        }
    }

    #[inline]
    pub(super) fn insert_for(&mut self, tick: Tick, value: T) -> Key {
        let key = self.wheel.insert(tick, value);
        self.has_new = true;
        if tick < self.earliest {
            self.come_first(tick, key);
        } else if tick == Tick::NEVER {
            self.wake_idle();
        }
        key
    }

    #[inline]
    pub(super) fn reset_to(&mut self, tick: Tick, key: Key) -> bool {
        let is_there = self.wheel.reset(key, tick);
        self.has_new |= is_there;
        if is_there && tick < self.earliest {
            self.come_first(tick, key);
        } else if self.first == Some(key) && tick > self.earliest {
            self.first = None;
        }
        is_there
    }

    /// The item of `key` is due at `tick`, earlier than all others.
    #[inline(never)]
    fn come_first(&mut self, tick: Tick, key: Key) {
        (self.earliest, self.first) = (tick, Some(key));
        self.timer.advance_to(tick);
        self.wake_idle();
    }

    /// There is an item: wakes the task that found none.
    #[cold]
    fn wake_idle(&mut self) {
        if let Some(idle) = self.idle.take() {
            idle.wake();
        }
    }

    /// The last item has been removed.
    #[cold]
    pub(super) fn became_empty(&mut self) {
        (self.earliest, self.first) = (Tick::NEVER, None);
        self.timer.ring();
    }

    /// The tick at which an item for `when` is due.
    #[inline]
    pub(super) fn tick_of(&self, when: When) -> Tick {
        self.timer.engine().tick_of(when).unwrap_or(Tick::NEVER)
    }

    /// The tick at which an item for `deadline` is due.
    #[inline]
    pub(super) fn tick_at(&self, deadline: Instant) -> Tick {
        self.scale.ceil(self.clock.ns_at(deadline))
    }

    pub(super) fn instant_of(&self, tick: Tick) -> Option<Instant> {
        self.clock.instant_at(self.scale.start_ns(tick)?)
    }
}

/// Yields the items whose deadlines have passed. Ends when the queue is empty, or when the engine
/// has stopped and no item is due. (It also returns `None` in a task of the engine that [must not
/// wait](SleepError::Circular).)
impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.poll_try_expired(cx).map(|expired| expired.ok().flatten())
    }
}

/// Terminated while it is empty: the next item makes it go on.
impl<T> FusedStream for DelayQueue<T> {
    fn is_terminated(&self) -> bool {
        self.wheel.is_empty()
    }
}

// === impl Expired ===

impl<T> Expired<T> {
    /// Returns the item.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns a reference to the item.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns a mutable reference to the item.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the deadline that has passed, rounded up to the engine's tick.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that named the item. It is stale now.
    pub fn key(&self) -> Key {
        self.key
    }
}
