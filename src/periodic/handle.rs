//! The caller's handle of a periodic, and the body that runs the task.

use std::fmt;
use std::time::Instant;

use crate::dispatch::Panics;
use crate::engine::Engine;
use crate::engine::{Cancel, CancelOnDrop};
use crate::sync::{Arc, AtomicU64, Ordering};

use super::armed::{Armed, Arms, Body, Next};
use super::schedule::Plan;
use super::{End, Run, StartError};

/// The caller's handle of a periodic: cancel or inspect it.
///
/// Clones are cheap and refer to the same periodic. One handle serves for all runs, from any
/// thread, including from inside the task. If every clone is dropped, the periodic goes on;
/// [`cancel_on_drop`](Periodic::cancel_on_drop) changes that. A handle may outlive its engine; the
/// periodic is then over.
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
    armed: Arc<dyn Arms<Counters>>,
}

/// State that any thread may read.
pub(super) struct Counters {
    pub(super) missed: AtomicU64,
}

/// A task and its schedule.
pub(super) struct PeriodicBody<F> {
    plan: Plan,
    task: F,
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

    /// Whether further runs are to come.
    pub fn is_running(&self) -> bool {
        self.end().is_none()
    }

    /// Why the periodic is over; `None` if it is not.
    pub fn end(&self) -> Option<End> {
        self.armed.end()
    }

    /// How many runs have begun.
    pub fn runs(&self) -> u64 {
        self.armed.count()
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
        // ORDER: Relaxed - a count for observation.
        self.armed.shared().missed.load(Ordering::Relaxed)
    }

    /// When the next run is due. While a run is under way, this is when that run was due. `None`:
    /// the periodic is over, or the next run is never due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due_ns = Some(self.armed.due_ns()).filter(|&ns| ns < u64::MAX && self.is_running())?;
        self.armed.clock().instant_at(due_ns)
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

impl fmt::Debug for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (end, runs, missed) = (self.end(), self.runs(), self.missed());
        f.debug_struct("Periodic")
            .field("end", &end)
            .field("runs", &runs)
            .field("missed", &missed)
            .finish_non_exhaustive()
    }
}

// === impl PeriodicBody ===

impl<F: FnMut(&Run) + Send + 'static> PeriodicBody<F> {
    /// Starts a periodic whose first run is due at `first_ns`.
    pub(super) fn start(
        engine: &Engine,
        first_ns: u64,
        plan: Plan,
        task: F,
    ) -> Result<Periodic, StartError<F>> {
        let counters = Counters { missed: AtomicU64::new(0) };
        match Armed::start(engine, first_ns, PeriodicBody { plan, task }, counters) {
            Ok(armed) => Ok(Periodic { armed }),
            Err((end, body)) => Err(StartError::of(end, body.task)),
        }
    }
}

impl<F: FnMut(&Run) + Send + 'static> Body for PeriodicBody<F> {
    type Shared = Counters;

    fn fire(&mut self, armed: &Arc<Armed<Self>>) {
        (self.task)(&Run::new(armed.clone()));
    }

    fn next(&mut self, armed: &Armed<Self>) -> Next {
        let Some((next_ns, missed)) = self.plan.next(armed.due_ns(), armed.clock()) else {
            return Next::End(End::Finished);
        };
        // ORDER: Relaxed - a count for observation.
        armed.shared.missed.fetch_add(missed, Ordering::Relaxed);
        Next::At(next_ns)
    }

    fn over(self, _end: End, _counters: &Counters) {
        let mut panics = Panics::none();
        panics.drop(self.task);
        panics.drop(self.plan);
        panics.go_on();
    }
}

debug! { impl[F] PeriodicBody[F] { plan = |this| this.plan } }
