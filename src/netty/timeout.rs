//! A timeout: what its makers hold of it, what the engine holds, and what a dispatcher gets.
//!
//! *Owner*: everybody, by reference count. While a timeout waits, one reference lies in the engine
//! as the payload ([`Pending`]). It knows its timer by number: what waits keeps no engine alive,
//! and making a timeout counts no references on what all threads share.
//!
//! *Invariants*
//! - Nobody but the engine has a waiting timeout before `new_timeout` returns it: the reaper
//!   decides its fate before it shows it to a task or a dispatcher, and `stop` before it returns
//!   it. So whoever wins `cancel` got the timeout from `new_timeout`, after the handle was stored,
//!   by a way that orders the two (a reference that was shared, or sent). The winner, and nobody
//!   else, takes the handle out; if there is no winner, it is dropped with the timeout.
//! - A reference leaves the engine decided: whoever drops a `Pending` that is undecided (an engine
//!   that ends with it) cancels it.
//!
//! *Tested by*: `tests/netty.rs`, `tests/netty_faults.rs`, `tests/netty_races.rs`.

use std::fmt;

use crate::engine::Handle;
use crate::sync::{Arc, UnsafeCell};

use super::fate::{End, Fate};
use super::{HashedWheelTimer, TimerTask};

/// The caller's end of a timeout: cancel it, and ask how it is.
///
/// Clones are cheap and are the same timeout, which is also what `==` compares. It may be kept as
/// long as one likes, also beyond its timer; what is kept is the task, this, and 64 bytes of the
/// wheel until the last clone goes (unless it was cancelled). Dropping every clone does not cancel.
///
/// ```
/// use std::time::Duration;
/// use tickless::netty::{HashedWheelTimer, Timeout};
///
/// let timer = HashedWheelTimer::new()?;
/// let timeout = timer.new_timeout(|_: &Timeout| eprintln!("no answer"), Duration::from_secs(5))?;
/// assert!(!timeout.is_expired() && !timeout.is_cancelled());
/// assert!(timeout.cancel());
/// assert!(timeout.is_cancelled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Timeout {
    inner: Arc<Inner>,
}

/// A timeout that has just expired, on its way to wherever its task is to run: see
/// [`Builder::dispatcher`](super::Builder::dispatcher).
///
/// It runs once or, where it is dropped instead, never; its timeout is expired either way.
///
/// ```
/// use std::time::Duration;
/// use tickless::ManualClock;
/// use tickless::netty::{Expired, HashedWheelTimer, Timeout};
///
/// // Runs what comes, where it comes: as without a dispatcher, but with a line in the log.
/// let logging = |expired: Expired| {
///     println!("{:?} is due", expired.timeout());
///     expired.run();
/// };
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().manual_clock(&clock).dispatcher(logging).build()?;
/// timer.new_timeout(|_: &Timeout| println!("and runs"), Duration::from_secs(1))?;
/// assert_eq!(timer.advance(Duration::from_secs(1))?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dropped timeout never runs its task"]
pub struct Expired {
    timeout: Timeout,
}

struct Inner {
    fate: Fate,
    /// The number of the timer.
    timer: u32,
    /// Stored once by `new_timeout`, taken by the winner of `cancel`.
    handle: UnsafeCell<Option<Handle<Pending>>>,
    task: Arc<dyn TimerTask>,
}

/// The engine's reference to a timeout. Cancels it if it is dropped undecided.
pub(super) struct Pending(Option<Arc<Inner>>);

// SAFETY: the cell is the one thing here that is not `Sync` by itself. It is written before anybody
// else can win the timeout, and taken by the one thread that does (see the file's invariants).
unsafe impl Sync for Inner {}

// === impl Timeout ===

impl Timeout {
    /// A timeout that waits, as yet without a handle.
    pub(super) fn new(task: Arc<dyn TimerTask>, timer: u32) -> Timeout {
        let (fate, handle) = (Fate::new(), UnsafeCell::new(None));
        Timeout { inner: Arc::new(Inner { fate, timer, handle, task }) }
    }

    /// The reference for the engine.
    pub(super) fn pending(&self) -> Pending {
        Pending(Some(self.inner.clone()))
    }

    /// Stores the handle.
    ///
    /// # Safety
    /// Called once, by the maker of the timeout, before anybody but the engine has it.
    pub(super) unsafe fn keep(&self, handle: Handle<Pending>) {
        // SAFETY: the caller says that nobody who could win the timeout has it, and nobody else
        // looks into the cell.
        self.inner.handle.with_mut(|cell| unsafe { *cell = Some(handle) });
    }

    /// The task. It is the timeout's as long as the timeout is, also when it ran or was cancelled.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// # let timer = HashedWheelTimer::new()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(5))?;
    /// // A later one instead: the same task, shared.
    /// if timeout.cancel() {
    ///     timer.new_timeout(timeout.task().clone(), Duration::from_secs(9))?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn task(&self) -> &Arc<dyn TimerTask> {
        &self.inner.task
    }

    /// The timer that the timeout was made by; `None`: nobody has it any more, so it has ended.
    ///
    /// As long as somebody keeps a [`HashedWheelTimer`] of it, this answers with another one, also
    /// when it has stopped. What is answered keeps the timer going while it lives. Takes no lock.
    /// O(log timers of the process).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(5))?;
    /// assert_eq!(timeout.timer().as_ref(), Some(&timer));
    /// drop(timer);
    /// assert!(timeout.timer().is_none() && timeout.is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timer(&self) -> Option<HashedWheelTimer> {
        HashedWheelTimer::of_number(self.inner.timer)
    }

    /// Whether the delay has passed and the task was reached: it runs, has run, or was given to the
    /// dispatcher. From inside the task: yes.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder().manual_clock(&ManualClock::new()).build()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(1))?;
    /// timer.advance(Duration::from_secs(1))?;
    /// assert!(timeout.is_expired() && !timeout.is_cancelled() && !timeout.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_expired(&self) -> bool {
        self.inner.fate.end() == Some(End::Expired)
    }

    /// Whether it was cancelled: by [`cancel`](Timeout::cancel), by
    /// [`stop`](HashedWheelTimer::stop), or because its timer was dropped. Its task will never run.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(5))?;
    /// timer.stop()?;
    /// assert!(timeout.is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.inner.fate.end() == Some(End::Cancelled)
    }

    /// Cancels. `true`, for one caller: the task will never run. `false`: it was too late, the
    /// timeout has expired or was cancelled before.
    ///
    /// When this returns, the timeout's room in the wheel is free, it is not counted any more, and
    /// the timer has let go of the task; [`TimerTask::cancelled`] was called, on this thread.
    ///
    /// Two atomic exchanges besides the callback; never waits. O(1).
    ///
    /// # Panics
    /// With what the callback panics with; all else is done by then.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(5))?;
    /// assert_eq!(timer.pending_timeouts(), 1);
    /// assert!(timeout.cancel());
    /// assert_eq!(timer.pending_timeouts(), 0);
    /// assert!(!timeout.cancel(), "it was cancelled before");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        if !self.inner.fate.decide(End::Cancelled) {
            return false;
        }
        // SAFETY: we won, and nobody else takes the handle (see the file's invariants).
        let handle = self.inner.handle.with_mut(|cell| unsafe { (*cell).take() });
        if let Some(handle) = handle {
            // Where it is too late for this, the engine has counted the timer off already, and
            // whoever it hands the timeout to finds it cancelled.
            handle.cancel();
        }
        self.inner.task.cancelled(self);
        true
    }
}

impl PartialEq for Timeout {
    fn eq(&self, other: &Timeout) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Timeout {}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.inner.fate.end() {
            None => "Waiting",
            Some(End::Cancelled) => "Cancelled",
            Some(End::Expired) => "Expired",
        };
        f.debug_tuple("Timeout").field(&format_args!("{state}")).finish()
    }
}

// === impl Expired ===

impl Expired {
    /// Runs the task, on the calling thread.
    ///
    /// # Panics
    /// With what the task panics with.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless::netty::{Expired, HashedWheelTimer, Timeout};
    /// # use std::sync::mpsc;
    /// let (queue, work) = mpsc::channel::<Expired>();
    /// let timer = HashedWheelTimer::builder()
    ///     .manual_clock(&ManualClock::new())
    ///     .dispatcher(move |expired| drop(queue.send(expired)))
    ///     .build()?;
    /// timer.new_timeout(|_: &Timeout| println!("here"), Duration::from_secs(1))?;
    /// timer.advance(Duration::from_secs(1))?;
    /// // Whoever takes it from the queue runs it, on a thread of its own choice.
    /// work.recv()?.run();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(self) {
        self.timeout.task().run(&self.timeout);
    }

    /// The timeout.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless::netty::{Expired, HashedWheelTimer, Timeout};
    /// # use std::sync::mpsc;
    /// let (queue, work) = mpsc::channel::<Expired>();
    /// # let timer = HashedWheelTimer::builder()
    /// #     .manual_clock(&ManualClock::new())
    /// #     .dispatcher(move |expired| drop(queue.send(expired)))
    /// #     .build()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(1))?;
    /// timer.advance(Duration::from_secs(1))?;
    /// let expired = work.recv()?;
    /// assert_eq!(expired.timeout(), &timeout);
    /// assert!(timeout.is_expired(), "and it stays so, whether it is run or not");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timeout(&self) -> &Timeout {
        &self.timeout
    }
}

impl fmt::Debug for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expired").finish_non_exhaustive()
    }
}

// === impl Pending ===

impl Pending {
    /// The engine handed it over: expired, unless somebody has cancelled it meanwhile.
    pub(super) fn expire(self) -> Option<Expired> {
        self.end_as(End::Expired).map(|timeout| Expired { timeout })
    }

    /// The engine stopped first: cancelled, unless somebody else has done it meanwhile.
    pub(super) fn stop(self) -> Option<Timeout> {
        self.end_as(End::Cancelled)
    }

    /// The timeout, if it ends like that and by this call.
    fn end_as(mut self, end: End) -> Option<Timeout> {
        let inner = self.0.take()?;
        inner.fate.decide(end).then_some(Timeout { inner })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(inner) = &self.0 {
            inner.fate.decide(End::Cancelled);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}
