//! The caller's end of a periodic, and what it runs.

use std::fmt;
use std::ops::Deref;
use std::time::Instant;

use crate::dispatch::Panics;
use crate::engine::Engine;
use crate::sync::{Arc, AtomicU64, Ordering};

use super::armed::{Armed, Arms, Body, Next};
use super::schedule::Plan;
use super::{End, Run, StartError};

/// The caller's end of a periodic: cancel it, and ask how it is.
///
/// Clones are cheap and are the same periodic. One handle serves for all runs, from any thread,
/// also from inside the task. Dropping every clone leaves the periodic going;
/// [`cancel_on_drop`](Periodic::cancel_on_drop) is for the opposite. A handle may outlive its
/// engine; the periodic is then over.
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

/// A [`Periodic`] that is cancelled when this is dropped.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::Schedule;
///
/// let engine = Engine::new()?;
/// {
///     let _progress = Schedule::fixed_rate(Duration::from_secs(1))
///         .start(&engine, |_| println!("still at it"))?
///         .cancel_on_drop();
///     // The work.
/// }
/// assert_eq!(engine.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a guard that is dropped at once cancels at once"]
pub struct PeriodicGuard {
    periodic: Option<Periodic>,
}

/// What anybody may look at.
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
    /// Cancels. `true`, for one caller: no run begins any more. The task, and what it captured, was
    /// dropped here, on this thread; or, if a run is under way, is when that run has ended, which
    /// this does not wait for. `false`: it was over before.
    ///
    /// [`runs`](Periodic::runs) counts a run that is under way, and stands still from here on.
    ///
    /// Two atomic exchanges; never waits. O(1).
    ///
    /// # Panics
    /// With what dropping the task panics with; all else is done by then.
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

    /// Why it is over; `None`: it is not.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{End, Schedule};
    /// let engine = Engine::new()?;
    /// let hourly = Schedule::fixed_rate(Duration::from_secs(3600)).start(&engine, |_| ())?;
    /// drop(engine.stop()?);
    /// assert_eq!(hourly.end(), Some(End::Stopped));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end(&self) -> Option<End> {
        self.armed.end()
    }

    /// How many runs have begun.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Schedule;
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let hourly = Schedule::fixed_rate(Duration::from_secs(3600)).start(&engine, |_| ())?;
    /// engine.advance(Duration::from_secs(24 * 3600))?;
    /// assert_eq!(hourly.runs(), 24);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runs(&self) -> u64 {
        self.armed.count()
    }

    /// How many runs of a fixed rate were skipped so far, because the one before was still under
    /// way, or so late that their time had passed.
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
        // ORDER: Relaxed - a count for whoever asks.
        self.armed.shared().missed.load(Ordering::Relaxed)
    }

    /// When the next run is due; while one is under way, when that one was. `None`: it is over, or
    /// the next run is never due.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Schedule;
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let hour = Duration::from_secs(3600);
    /// let hourly = Schedule::fixed_rate(hour).start(&engine, |_| ())?;
    /// assert_eq!(hourly.next_deadline(), Some(engine.now() + hour));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_deadline(&self) -> Option<Instant> {
        let due_ns = Some(self.armed.due_ns()).filter(|&ns| ns < u64::MAX && self.is_running())?;
        self.armed.clock().instant_at(due_ns)
    }

    /// Turns the handle into one that cancels the periodic when it is dropped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::Schedule;
    /// let engine = Engine::new()?;
    /// let hourly = Schedule::fixed_rate(Duration::from_secs(3600)).start(&engine, |_| ())?;
    /// drop(hourly.clone().cancel_on_drop());
    /// assert!(!hourly.is_running());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_on_drop(self) -> PeriodicGuard {
        PeriodicGuard { periodic: Some(self) }
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

// === impl PeriodicGuard ===

impl PeriodicGuard {
    /// Gives the handle back: the periodic goes on after all.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::Schedule;
    /// let engine = Engine::new()?;
    /// let hourly = Schedule::fixed_rate(Duration::from_secs(3600)).start(&engine, |_| ())?;
    /// let hourly = hourly.cancel_on_drop().into_handle();
    /// assert!(hourly.is_running());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_handle(mut self) -> Periodic {
        self.periodic.take().expect("a guard has its handle until it is dropped")
    }
}

impl Deref for PeriodicGuard {
    type Target = Periodic;

    fn deref(&self) -> &Periodic {
        self.periodic.as_ref().expect("a guard has its handle until it is dropped")
    }
}

impl Drop for PeriodicGuard {
    fn drop(&mut self) {
        if let Some(periodic) = self.periodic.take() {
            periodic.cancel();
        }
    }
}

impl fmt::Debug for PeriodicGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PeriodicGuard").field(&**self).finish()
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
        // ORDER: Relaxed - a count for whoever asks.
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

impl<F> fmt::Debug for PeriodicBody<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicBody").field("plan", &self.plan).finish_non_exhaustive()
    }
}
