//! One run of a periodic as its task sees it, the step from each run to the next, and the body that
//! runs the task.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::dispatch::Panics;
use crate::sync::Arc;
use crate::time::{Clock, next_on_grid, saturating_ns};

use super::End;
use super::armed::{Body, DueRun, Next, Repeater, Repeating};

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

/// The step from a run to the next.
pub(super) enum Plan {
    Rate { period_ns: u64, skips: Skips },
    Delay { delay_ns: u64 },
    From(Box<dyn FnMut(Instant) -> Option<Instant> + Send>),
}

/// Which times of its grid a fixed rate skips if they pass before a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skips {
    /// None.
    Nothing,
    /// The times before the present.
    Past,
    /// The present as well: the period is shorter than a tick, so the present is the tick of that
    /// run.
    PastAndPresent,
}

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
    /// [`Periodic::missed`](super::Periodic::missed).
    pub fn missed(&self) -> u64 {
        self.armed.core().tally()
    }

    /// Makes this the last run: [`Periodic::cancel`](super::Periodic::cancel) from inside. The task
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
    T: From<DueRun> + Send + 'static,
{
    type Shared = ();
    type Payload = T;

    fn fire(&mut self, armed: &Arc<Repeater<Self>>, panics: &mut Panics) -> Next {
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

    fn over(self, _end: End, _armed: &Repeater<Self>) {
        let mut panics = Panics::none();
        panics.drop(self.task);
        panics.drop(self.plan);
        panics.go_on();
    }
}

// === impl Plan ===

impl Plan {
    /// Adapts the plan to the engine's tick. `None`: the engine is gone.
    pub(super) fn fit(&mut self, tick: Option<Duration>) {
        if let Plan::Rate { period_ns, skips: skips @ Skips::Past } = self {
            if tick.is_some_and(|tick| *period_ns < saturating_ns(tick)) {
                *skips = Skips::PastAndPresent;
            }
        }
    }

    /// Returns when the next run is due, and how many are skipped, after a run that was due at
    /// `last_ns` and has just ended. `None`: there is no next run.
    pub(super) fn next(&mut self, last_ns: u64, clock: &Clock) -> Option<(u64, u64)> {
        match self {
            Plan::Rate { period_ns, skips } => {
                let skipped_before_ns = match skips {
                    Skips::Nothing => 0,
                    Skips::Past => clock.now_ns(),
                    Skips::PastAndPresent => clock.now_ns().saturating_add(1),
                };
                Some(next_on_grid(last_ns, *period_ns, skipped_before_ns))
            }
            Plan::Delay { delay_ns } => Some((clock.now_ns().saturating_add(*delay_ns), 0)),
            Plan::From(next) => {
                let last = clock.instant_at(last_ns).unwrap_or_else(Instant::now);
                next(last).map(|next| (clock.ns_at(next), 0))
            }
        }
    }
}
