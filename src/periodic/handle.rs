//! A periodic: the caller's handle, one run as its task sees it, and the body that runs the task.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::dispatch::Panics;
use crate::engine::{Cancel, CancelOnDrop};
use crate::sync::Arc;
use crate::wait::{Cancelled, WaitError, deadline_in, wait_for_end};

use super::End;
use super::armed::{Armed, Body, Due, Next, Repeating};
use super::schedule::Plan;

/// The caller's handle of a periodic: cancel or inspect it.
///
/// Clones are cheap and refer to the same periodic. One handle serves for all runs, from any
/// thread, including from inside the task. If every clone is dropped, the periodic goes on;
/// [`cancel_on_drop`](Periodic::cancel_on_drop) changes that. A handle may outlive its engine; the
/// periodic is over when its last run is, and nobody keeps the payload for the next one.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::Schedule;
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let periodic = Schedule::fixed_rate(second).start(&engine, |_| println!("tick"))?;
/// engine.advance(3 * second)?;
/// assert!(periodic.cancel());
/// engine.advance(3 * second)?;
/// assert_eq!(periodic.runs(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Periodic {
    pub(super) armed: Arc<dyn Repeating>,
}

/// One run of a periodic, as its task sees it.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{Run, Schedule};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let mut left = 3;
/// let countdown = move |run: &Run| {
///     println!("{left}, {:?} late, {} missed", run.lateness(), run.missed());
///     left -= 1;
///     if left == 0 {
///         run.cancel();
///     }
/// };
/// let second = Duration::from_secs(1);
/// let periodic = Schedule::fixed_rate(second).start(&engine, countdown)?;
/// engine.advance(10 * second)?;
/// assert_eq!(periodic.runs(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run {
    armed: Arc<dyn Repeating>,
    number: u64,
    due_ns: u64,
}

/// A task and its schedule.
pub(super) struct PeriodicBody<F, T> {
    pub(super) plan: Plan,
    pub(super) task: F,
    /// That of the engine's payloads.
    pub(super) payload: PhantomData<fn(T)>,
}

// === impl Periodic ===

impl Periodic {
    /// Cancels the periodic. Returns `true` to one caller: no further run begins. The task, with
    /// what it captured, was dropped here, on this thread. If a run is under way, the task is
    /// dropped when that run ends instead, and this call does not wait for it. `false`: the
    /// periodic was over before.
    ///
    /// [`runs`](Periodic::runs) includes a run that is under way, and does not change from here on.
    ///
    /// Two compare-and-swaps; never waits. O(1).
    ///
    /// # Panics
    /// Propagates a panic of the task's drop, after everything else is done.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::Schedule;
    /// let engine = Engine::new()?;
    /// let hourly = Schedule::fixed_rate(Duration::from_secs(3600)).start(&engine, |_| ())?;
    /// assert!(hourly.cancel());
    /// assert_eq!(engine.len(), 0);
    /// assert!(!hourly.cancel(), "it was cancelled before");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.armed.cancel()
    }

    /// Cancels the periodic, and waits until a run that is under way has returned. When this
    /// returns `Ok`, nothing of the periodic runs any more, and the task with what it captured is
    /// dropped. Returns how the periodic ended, also if another handle ended it. See
    /// [`wait`](crate::wait).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::End;
    /// let engine = Engine::new()?;
    /// let periodic = engine.every(Duration::from_millis(1), |_| println!("a run"))?;
    /// assert_eq!(periodic.cancel_wait()?, End::Cancelled);
    /// // Memory that the runs have used may be freed here.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The wait would not end (from inside the task, for example): see [`WaitError`]. The periodic
    /// is cancelled all the same.
    ///
    /// # Panics
    /// As [`cancel`](Periodic::cancel).
    pub fn cancel_wait(&self) -> Result<End, WaitError> {
        self.cancel();
        wait_for_end(self.armed.core(), None)
    }

    /// As [`cancel_wait`](Periodic::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](Periodic::cancel_wait), or a run is still under way:
    /// [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`cancel`](Periodic::cancel).
    pub fn cancel_wait_within(&self, limit: Duration) -> Result<End, WaitError> {
        self.cancel();
        wait_for_end(self.armed.core(), deadline_in(limit))
    }

    /// Cancels the periodic, now. The future waits as [`cancel_wait`](Periodic::cancel_wait) does.
    /// If it is dropped, the periodic stays cancelled, and a run may still be under way.
    ///
    /// # Panics
    /// As [`cancel`](Periodic::cancel).
    pub fn cancelled(&self) -> Cancelled<'_, End> {
        self.cancel();
        Cancelled::new(self.armed.core())
    }

    /// Whether it is not over yet.
    pub fn is_running(&self) -> bool {
        self.end().is_none()
    }

    /// Why the periodic is over; `None` if it is not.
    pub fn end(&self) -> Option<End> {
        self.armed.core().word.end()
    }

    /// How many runs have begun.
    pub fn runs(&self) -> u64 {
        self.armed.core().word.count()
    }

    /// How many runs of a fixed rate have been skipped so far, because the run before was still
    /// under way, or was so late that their time had passed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Schedule;
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).build()?;
    /// let second = Duration::from_secs(1);
    /// let slow = move |_: &_| clock.advance(second * 5 / 2);
    /// let periodic = Schedule::fixed_rate(second).start(&engine, slow)?;
    /// engine.advance(second)?;
    /// assert_eq!((periodic.runs(), periodic.missed()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn missed(&self) -> u64 {
        self.armed.core().tally()
    }

    /// When the next run is due. While a run is under way, this is when that run was due. `None`:
    /// the periodic is over, or the next run is never due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let core = self.armed.core();
        let due_ns = Some(core.due_ns()).filter(|&ns| ns < u64::MAX && self.is_running())?;
        core.clock.instant_at(due_ns)
    }

    /// Turns the handle into one that cancels the periodic when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<Periodic> {
        CancelOnDrop::new(self)
    }
}

impl Cancel for Periodic {
    fn cancel(self) {
        Periodic::cancel(&self);
    }
}

unwind_safe! { impl[] Periodic[] }

debug! { impl[] Periodic[] {
    end = |this| this.end(),
    runs = |this| this.runs(),
    missed = |this| this.missed(),
} }

// === impl Run ===

impl Run {
    /// The number of this run; the first is 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When this run was due, to the nanosecond. At a fixed rate this is a whole number of periods
    /// after the first run.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::{Run, Schedule};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let (begin, period) = (engine.now(), Duration::from_micros(1500));
    /// let task = move |run: &Run| {
    ///     assert_eq!(run.deadline(), begin + period * run.number() as u32);
    /// };
    /// Schedule::fixed_rate(period).start(&engine, task)?;
    /// engine.advance(1000 * period)?;
    /// assert_eq!(engine.stats().panicked, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Instant {
        self.armed.core().clock.instant_at(self.due_ns).unwrap_or_else(Instant::now)
    }

    /// How long ago this run was due, by the engine's clock: up to a tick, plus the time that the
    /// system and other tasks took. The value grows while the run goes on.
    pub fn lateness(&self) -> Duration {
        Duration::from_nanos(self.armed.core().clock.now_ns().saturating_sub(self.due_ns))
    }

    /// How many runs of a fixed rate have been skipped so far:
    /// [`Periodic::missed`].
    pub fn missed(&self) -> u64 {
        self.armed.core().tally()
    }

    /// Makes this the last run: [`Periodic::cancel`] from inside. The task
    /// is dropped when this run has ended.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::{Run, Schedule};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let once = |run: &Run| assert!(run.cancel());
    /// let periodic = Schedule::fixed_rate(Duration::from_secs(1)).start(&engine, once)?;
    /// engine.advance(Duration::from_secs(10))?;
    /// assert_eq!(periodic.runs(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.armed.cancel()
    }
}

debug! { impl[] Run[] { number = |this| this.number } }

// === impl PeriodicBody ===

impl<F, T> Body for PeriodicBody<F, T>
where
    F: FnMut(&Run) + Send + 'static,
    T: From<Due> + Send + 'static,
{
    type Shared = ();
    type Payload = T;

    fn fire(&mut self, armed: &Arc<Armed<Self>>, panics: &mut Panics) -> Next {
        let core = &armed.core;
        let run = Run { armed: armed.clone(), number: core.word.count(), due_ns: core.due_ns() };
        panics.run(|| (self.task)(&run));
        if let Some(end) = core.word.end() {
            return Next::End(end);
        }
        match panics.run(|| self.plan.next(run.due_ns, &core.clock)) {
            Some(Some((next_ns, missed))) => {
                core.add_to_tally(missed);
                Next::At(next_ns)
            }
            Some(None) => Next::End(End::Finished),
            None => Next::End(End::Panicked),
        }
    }

    fn over(self, _end: End, _armed: &Armed<Self>) {
        let mut panics = Panics::none();
        panics.drop(self.task);
        panics.drop(self.plan);
        panics.go_on();
    }
}
