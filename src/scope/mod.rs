//! Scopes: the timers of one connection, request or session, which end together.
//!
//! A connection has several timers: one for the handshake, one for each request in flight, one for
//! idleness. When it ends, by whichever path, none of them may fire any more. A [`Scope`] has them
//! all: dropping it cancels those that are still pending.
//!
//! ```
//! use std::time::Duration;
//! use tickless::scope::{Key, Scope};
//! use tickless::{Batch, Builder, ManualClock};
//!
//! enum Timeout {
//!     Answer { connection: u32, request: u32 },
//!     Idle { connection: u32 },
//! }
//!
//! struct Connection {
//!     number: u32,
//!     timers: Scope<Timeout>,
//!     idle: Key,
//! }
//!
//! let clock = ManualClock::new();
//! let engine = Builder::new().manual_clock(&clock).build_with_handler(
//!     |batch: Batch<'_, Timeout>| batch.for_each(|timeout| match timeout {
//!         Timeout::Answer { connection, request } => println!("{connection}: no {request}"),
//!         Timeout::Idle { connection } => println!("{connection} is idle"),
//!     }),
//! )?;
//! let second = Duration::from_secs(1);
//!
//! let mut timers = engine.scope();
//! let idle = timers.schedule(30 * second, Timeout::Idle { connection: 7 })?;
//! let mut connection = Connection { number: 7, timers, idle };
//!
//! // A request comes in, and is answered in time.
//! let timeout = Timeout::Answer { connection: connection.number, request: 1 };
//! let answer = connection.timers.schedule(5 * second, timeout)?;
//! connection.timers.reset(connection.idle, 30 * second)?;
//! assert!(connection.timers.cancel(answer));
//!
//! // The peer hangs up.
//! assert_eq!(engine.len(), 1);
//! drop(connection);
//! assert_eq!(engine.len(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A scope is for timers with one owner, who calls it through `&mut`. For timers that several
//! threads find by a name, there is [`tickless-keyed`](https://docs.rs/tickless-keyed); for a
//! single timer, [`cancel_on_drop`](crate::Handle::cancel_on_drop) is enough. A [`WaitableScope`]
//! also waits for tasks that run.

mod slots;
mod waitable;

use std::time::Instant;

use crate::dispatch::{IntoPayload, Panics, Task, contained};
use crate::engine::{Engine, EngineRef, Handle, State, When};
use crate::error::{ResetError, ScheduleError};

pub use slots::Key;
use slots::{CallersEnd, Slots};
pub use waitable::WaitableScope;

/// The timers of one connection, request or session: see the [module](crate::scope). Created by
/// [`Engine::scope`].
///
/// Each timer has a [`Key`]. A timer is *over* when it has fired or was cancelled, or when the
/// engine has stopped. The key of a timer that is over finds nothing: `cancel` returns `false`,
/// `take` and `remove` return `None`, and `reset` returns an error. It never finds a later timer of
/// the same scope. (After a reset that a stop has interrupted, the payload stays in the scope, as
/// it does in a [`Handle`]: see [`reset`](Scope::reset).)
///
/// Dropping a scope cancels its timers: their payloads are dropped there, and a panic of such a
/// drop is swallowed. What the engine is handing over at that moment may still run, or be running.
/// To let the timers fire instead, call [`detach`](Scope::detach).
///
/// A scope does not keep its engine alive. If the engine stops first, `stop` returns the payloads
/// of the scope's timers, as it does for all others, and [`schedule`](Scope::schedule) returns an
/// error.
///
/// *Threads.* A scope can be sent to another thread, and dropped there, also in a task of its
/// engine.
///
/// *Cost.* Scheduling, cancelling and resetting take a few nanoseconds more than without a scope. A
/// scope that never had a timer has allocated nothing. A timer takes 16 bytes in its scope. Those
/// that have fired are let go of while others are scheduled, so a scope that lives for long has
/// room for at most four times as many timers as were ever pending in it at once. Timers outside of
/// scopes pay nothing.
#[must_use = "dropping a scope cancels its timers"]
pub struct Scope<T: Send + 'static = Task> {
    engine: EngineRef<T>,
    slots: Slots<Handle<T>>,
}

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// Creates a scope without timers, for the timers of one connection, request or session.
    /// Allocates nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::new()?;
    /// let mut request = engine.scope();
    /// request.schedule(Duration::from_secs(1), || println!("this takes long"))?;
    /// request.schedule(Duration::from_secs(5), || println!("too long"))?;
    /// drop(request); // it is answered
    /// assert_eq!(engine.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scope(&self) -> Scope<T> {
        Scope { engine: EngineRef::new(self), slots: Slots::new() }
    }
}

// === impl Scope ===

impl<T: Send + 'static> Scope<T> {
    /// Schedules `payload` for `when`, as [`Engine::schedule`] does. Amortised O(1).
    ///
    /// # Errors
    /// The engine is full, has stopped or is gone. The payload comes back in the error.
    #[inline]
    pub fn schedule(
        &mut self,
        when: impl Into<When>,
        payload: impl IntoPayload<T>,
    ) -> Result<Key, ScheduleError<T>> {
        let handle = self.engine.schedule_when(when.into(), payload.into_payload())?;
        Ok(self.slots.insert(handle))
    }

    /// Cancels a timer. Returns `true` if it will never fire: its payload was dropped here. Returns
    /// `false` if it is over. O(1).
    ///
    /// # Panics
    /// Dropping the payload panics. The timer is cancelled all the same.
    #[inline]
    pub fn cancel(&mut self, key: Key) -> bool {
        self.slots.remove(key).is_some_and(Handle::cancel)
    }

    /// Cancels a timer and returns its payload. Returns `None` if it is over. O(1).
    #[must_use = "`cancel` drops the payload, and costs the same"]
    pub fn take(&mut self, key: Key) -> Option<T> {
        self.slots.remove(key)?.take()
    }

    /// Moves a timer: it is then due at `when`, and at no other time. The key stays the same. Costs
    /// as much as [`Handle::reset`], which also says what happens to many timers that are moved
    /// from the present.
    ///
    /// # Errors
    /// - [`ResetError::TooLate`]: the timer has fired, was cancelled, or is no longer in the scope.
    /// - [`ResetError::Stopped`]: the engine has stopped. If the stop comes while the timer is
    ///   being moved to an earlier time, the payload stays in the scope: [`take`](Scope::take)
    ///   returns it, and cancelling the timer or dropping the scope drops it.
    #[inline]
    pub fn reset(&mut self, key: Key, when: impl Into<When>) -> Result<(), ResetError> {
        self.slots.get_mut(key).map_or(Err(ResetError::TooLate), |handle| handle.reset(when))
    }

    /// Whether a timer is pending, which may change right after. O(1).
    pub fn is_pending(&self, key: Key) -> bool {
        self.pending(key).is_some()
    }

    /// Returns when a timer is due: its deadline rounded up to the tick. Returns `None` if it is
    /// over, or never fires. O(1).
    pub fn deadline(&self, key: Key) -> Option<Instant> {
        self.pending(key)?.deadline()
    }

    /// Takes a timer out of the scope, and returns its handle. Dropping the handle lets the timer
    /// fire, whatever becomes of the scope. Returns `None` if the timer is over. O(1).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let second = Duration::from_secs(1);
    /// let mut connection = engine.scope();
    /// let linger = connection.schedule(second, || println!("forget the address"))?;
    /// connection.schedule(second, || println!("close the connection"))?;
    /// drop(connection.remove(linger));
    /// drop(connection);
    /// assert_eq!(engine.advance(second)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&mut self, key: Key) -> Option<Handle<T>> {
        self.pending(key)?;
        self.slots.remove(key)
    }

    /// Returns how many timers are pending. They fire while this counts, so it is an estimate
    /// unless time stands still. One atomic load for each timer in the scope.
    pub fn len(&self) -> usize {
        self.slots.iter().filter(|handle| is_pending(handle)).count()
    }

    /// Whether no timer is pending. At most one atomic load for each timer in the scope.
    pub fn is_empty(&self) -> bool {
        !self.slots.iter().any(is_pending)
    }

    /// Cancels all timers, and returns how many were still pending. The scope can be used again.
    /// One compare-and-swap for each timer; never waits.
    ///
    /// # Panics
    /// Dropping a payload panics. All timers are cancelled and all payloads are dropped first; the
    /// first panic goes on then.
    pub fn cancel_all(&mut self) -> usize {
        let mut panics = Panics::none();
        let cancel = |handle: Handle<T>| panics.run(|| handle.cancel()) == Some(true);
        let cancelled = self.slots.drain().map(cancel).filter(|is_cancelled| *is_cancelled).count();
        panics.go_on();
        cancelled
    }

    /// Cancels all timers, and returns the payloads of those that were still pending, in no
    /// particular order. The scope can be used again. Costs as much as
    /// [`cancel_all`](Scope::cancel_all), and a vector.
    #[must_use = "`cancel_all` drops the payloads"]
    pub fn take_all(&mut self) -> Vec<T> {
        self.slots.drain().filter_map(Handle::take).collect()
    }

    /// Lets all timers fire.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let mut batch = engine.scope();
    /// for number in 1..=3 {
    ///     // An error drops the scope, so that all are scheduled or none is.
    ///     batch.schedule(Duration::from_secs(number), move || println!("step {number}"))?;
    /// }
    /// batch.detach();
    /// assert_eq!(engine.advance(Duration::from_secs(3))?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach(mut self) {
        let mut panics = Panics::none();
        // A handle has a payload to drop if a stop interrupted a reset of it.
        self.slots.drain().for_each(|handle| panics.drop(handle));
        panics.go_on();
    }

    fn pending(&self, key: Key) -> Option<&Handle<T>> {
        self.slots.get(key).filter(|handle| is_pending(handle))
    }
}

fn is_pending<T: Send + 'static>(handle: &Handle<T>) -> bool {
    handle.state() == State::Pending
}

impl<T: Send + 'static> Drop for Scope<T> {
    fn drop(&mut self) {
        for handle in self.slots.drain() {
            contained(|| _ = handle.cancel());
        }
    }
}

debug! { impl[T: Send + 'static] Scope[T] { len = |this| this.len() } }
