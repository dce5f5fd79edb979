//! A timeout: the caller's handle, the engine's reference, and what a dispatcher gets.
//!
//! *Owner*: shared by reference count. While a timeout waits, the engine holds
//! one reference as the payload ([`Pending`]). A timeout knows its timer by number, so a waiting
//! timeout keeps no engine alive, and creating one touches no reference count that all threads
//! share.
//!
//! ```text
//!              cancel, stop, or the end of the timer
//!   waiting ──────────────────────────────────────────► cancelled
//!      └──────────────────────────────────────────────► expired
//!              the reaper, when it comes to the timeout
//! ```
//!
//! *Who decides*: a race between cancelling and firing involves two words. The engine's (the state
//! word of the entry) decides which side gets the payload, which is one reference to the timeout
//! and the timer's place in the wheel. The timeout's own word decides what the user is told and
//! whether the task runs. They cannot contradict each other, because the result of the engine's
//! word decides nothing else:
//!
//! - Cancelled here, then cancelled in the engine: the place is free at once, the usual case.
//! - Cancelled here, while the engine was handing the timeout over or stopping: the engine no
//!   longer counts it, and the receiver of the reference finds the timeout cancelled and drops it.
//! - Expired here: the engine has handed it over, and no caller will cancel it there.
//!
//! So a task can cancel a timeout that the reaper has already taken out in the same batch, which
//! the engine's word alone could not guarantee.
//!
//! *Invariants*
//! - Only the engine has a waiting timeout before `new_timeout` returns it: the reaper decides its
//!   end before it passes it to a task or a dispatcher, and `stop` before it returns it. So the
//!   winner of `cancel` got the timeout from `new_timeout`, after the handle was stored, in a way
//!   that orders the two (a reference that was shared, or sent). Only the winner takes the handle
//!   out; if there is no winner, the handle is dropped with the timeout.
//! - A reference leaves the engine decided: dropping an undecided `Pending` (as an engine that ends
//!   does) cancels the timeout.
//!
//! *Orderings*: no memory is published through the timeout's word, so it is no handshake and has no
//! model.
//!
//! *Tested by*: `tests/calls.rs`, `tests/faults.rs`, `tests/races.rs`,
//! `tests/oracle.rs`.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tickless::Handle;

use crate::{HashedWheelTimer, TimerTask};

/// The caller's handle of a timeout: cancel or inspect it.
///
/// Clones are cheap and refer to the same timeout; `==` compares whether two do. A handle may be
/// kept for any time, even beyond its timer. Until the last clone is dropped, it keeps the task,
/// itself and (unless the timeout was cancelled) 64 bytes of the wheel. Dropping every clone does
/// not cancel the timeout.
///
/// ```
/// use std::time::Duration;
/// use tickless_netty::{HashedWheelTimer, Timeout};
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

/// A timeout that has expired and whose task has not run yet: see
/// [`Builder::dispatcher`](crate::Builder::dispatcher).
///
/// Its task runs once or, if this is dropped instead, never; the timeout is expired either way.
///
/// ```
/// use std::time::Duration;
/// use tickless::ManualClock;
/// use tickless_netty::{Expired, HashedWheelTimer, Timeout};
///
/// // Runs each task on the timer's thread, as without a dispatcher, and also logs it.
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
    /// `WAITING`, or an [`Outcome`].
    fate: AtomicU32,
    /// The number of the timer's engine.
    timer: u32,
    /// Stored once by `new_timeout`, taken by the winner of `cancel`.
    handle: UnsafeCell<Option<Handle<Pending>>>,
    task: Arc<dyn TimerTask>,
}

const WAITING: u32 = 0;

/// How a timeout ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Outcome {
    /// Its task will never run.
    Cancelled = 1,
    /// Its task runs, or has run, or was given to a dispatcher.
    Expired = 2,
}

/// The engine's reference to a timeout. Cancels the timeout if it is dropped undecided.
pub(super) struct Pending(Option<Arc<Inner>>);

// SAFETY: only the cell is not `Sync` by itself. It is written before any other thread can win the
// timeout, and taken by the one thread that does (see the file's invariants).
unsafe impl Sync for Inner {}

// === impl Timeout ===

impl Timeout {
    /// A waiting timeout, without a handle yet, and the reference for the engine.
    pub(super) fn new(task: Arc<dyn TimerTask>, timer: u32) -> (Timeout, Pending) {
        let (fate, handle) = (AtomicU32::new(WAITING), UnsafeCell::new(None));
        let inner = Arc::new(Inner { fate, timer, handle, task });
        (Timeout { inner: inner.clone() }, Pending(Some(inner)))
    }

    /// Stores the handle.
    ///
    /// # Safety
    /// Called once, by the creator of the timeout, while only the engine has it as well.
    pub(super) unsafe fn keep(&self, handle: Handle<Pending>) {
        // SAFETY: guaranteed by the caller: no thread that could win the timeout has it, and
        // nothing else accesses the cell.
        unsafe { *self.inner.handle.get() = Some(handle) };
    }

    /// The task. The timeout keeps it, even after it ran or was cancelled.
    pub fn task(&self) -> &Arc<dyn TimerTask> {
        self.inner.task.carried().unwrap_or(&self.inner.task)
    }

    /// The timer that created the timeout. `None`: every [`HashedWheelTimer`] of it was dropped, so
    /// it has ended.
    ///
    /// While one still exists, this returns another one, even if the timer has stopped. The
    /// returned one keeps the timer alive. Takes no lock. O(log timers of the process).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_netty::{HashedWheelTimer, Timeout};
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

    /// Whether the delay has passed and the timer has reached the task: it runs, has run, or was
    /// given to the dispatcher. Returns `true` inside the task.
    pub fn is_expired(&self) -> bool {
        self.inner.end() == Some(Outcome::Expired)
    }

    /// Whether the timeout was cancelled: by [`cancel`](Timeout::cancel), by
    /// [`stop`](HashedWheelTimer::stop), or because its timer was dropped. Its task will never run.
    pub fn is_cancelled(&self) -> bool {
        self.inner.end() == Some(Outcome::Cancelled)
    }

    /// Cancels the timeout. Returns `true` to one caller: the task will never run. `false`: the
    /// timeout has expired or was cancelled before.
    ///
    /// When this returns, the timeout's place in the wheel is free, it is no longer counted, the
    /// timer has dropped its reference to the task, and [`TimerTask::cancelled`] was called, on
    /// this thread. (A timeout that is due may have been collected to run. Then it is counted, and
    /// the reference stays, until the timer's thread comes to it.)
    ///
    /// Two compare-and-swaps besides the callback; never waits. O(1).
    ///
    /// # Panics
    /// Propagates a panic of the callback, after everything else is done.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::new()?;
    /// let timeout = timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_secs(5))?;
    /// assert_eq!(timer.pending_timeouts(), 1);
    /// assert!(timeout.cancel());
    /// assert_eq!(timer.pending_timeouts(), 0);
    /// assert!(!timeout.cancel(), "it was cancelled before");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        if !self.inner.decide(Outcome::Cancelled) {
            return false;
        }
        // SAFETY: this thread won, and no other takes the handle (see the file's invariants).
        let handle = unsafe { (*self.inner.handle.get()).take() };
        if let Some(handle) = handle {
            // If this is too late, the receiver of the timeout finds it cancelled. Until then, the
            // engine counts it.
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

// A panic leaves a timeout consistent: its task is moved out before it is run or dropped.
impl std::panic::UnwindSafe for Timeout {}
impl std::panic::RefUnwindSafe for Timeout {}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner.end() {
            None => f.write_str("Timeout(Waiting)"),
            Some(end) => write!(f, "Timeout({end:?})"),
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Decides the end, unless it is decided. Returns `true` once in the life of the timeout.
    fn decide(&self, end: Outcome) -> bool {
        let (waiting, end) = (WAITING, end as u32);
        // ORDER: AcqRel - a thread that reads the end also sees what the decider did before.
        let decided = self.fate.compare_exchange(waiting, end, Ordering::AcqRel, Ordering::Acquire);
        decided.is_ok()
    }

    /// How the timeout ended; `None`: it has not.
    fn end(&self) -> Option<Outcome> {
        // ORDER: Acquire - as in `decide`.
        match self.fate.load(Ordering::Acquire) {
            WAITING => None,
            end if end == Outcome::Cancelled as u32 => Some(Outcome::Cancelled),
            _ => Some(Outcome::Expired),
        }
    }
}

// === impl Expired ===

impl Expired {
    /// Runs the task, on the calling thread.
    ///
    /// # Panics
    /// Propagates a panic of the task.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless_netty::{Expired, HashedWheelTimer, Timeout};
    /// # use std::sync::mpsc;
    /// let (queue, work) = mpsc::channel::<Expired>();
    /// let timer = HashedWheelTimer::builder()
    ///     .manual_clock(&ManualClock::new())
    ///     .dispatcher(move |expired| drop(queue.send(expired)))
    ///     .build()?;
    /// timer.new_timeout(|_: &Timeout| println!("here"), Duration::from_secs(1))?;
    /// timer.advance(Duration::from_secs(1))?;
    /// // The receiver of the queue runs it, on any thread.
    /// work.recv()?.run();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(self) {
        self.timeout.inner.task.run(&self.timeout);
    }

    /// The timeout.
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
    /// Called when the engine has handed the timeout over. `None`: it was cancelled meanwhile.
    pub(super) fn expire(self) -> Option<Expired> {
        self.end_as(Outcome::Expired).map(|timeout| Expired { timeout })
    }

    /// Called when the engine has stopped. `None`: the timeout was cancelled meanwhile.
    pub(super) fn stop(self) -> Option<Timeout> {
        self.end_as(Outcome::Cancelled)
    }

    /// The timeout, if this call decides that it ends as `end`.
    fn end_as(mut self, end: Outcome) -> Option<Timeout> {
        let inner = self.0.take()?;
        inner.decide(end).then_some(Timeout { inner })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // The usual case: it was cancelled, and the engine followed.
        if let Some(inner) = self.0.as_ref().filter(|inner| inner.end().is_none()) {
            inner.decide(Outcome::Cancelled);
        }
    }
}
