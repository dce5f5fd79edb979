//! The schedule of a periodic: the time of the first run, and the step from each run to the next.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::engine::{Engine, EngineRef, When};
use crate::error::Refused;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::time::saturating_ns;
use crate::wait::{Ends, working_on};

use super::armed::{DueRun, Repeater};
use super::run::{PeriodicBody, Plan, Skips};
use super::{Repeated, Run, StartError, StartReason};

/// The times at which a task runs. A schedule is built first, and then [started](Schedule::start)
/// on an engine.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Run, Schedule};
///
/// let engine = Engine::new()?;
/// let (sender, receiver) = mpsc::channel();
/// let periodic = Schedule::fixed_rate(Duration::from_millis(5))
///     .starting(Duration::ZERO)
///     .start(&engine, move |run: &Run| drop(sender.send(run.number())))?;
/// assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
/// assert!(periodic.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a schedule does nothing until it is started"]
pub struct Schedule {
    plan: Plan,
    /// The first run. `None`: as if there had been a run at the start.
    first: Option<When>,
    /// Whether a fixed rate has a phase of its own.
    is_spread: bool,
}

/// The caller's handle of a periodic.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{Periodic, Schedule};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let periodic: Periodic = Schedule::fixed_rate(second).start(&engine, |_| println!("tick"))?;
/// engine.advance(3 * second)?;
/// assert!(periodic.cancel());
/// engine.advance(3 * second)?;
/// assert_eq!(periodic.runs(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Periodic = Repeated<Schedule>;

// === impl Engine: periodics ===

impl Engine {
    /// Runs `task` every `period`: [`Schedule::fixed_rate`], [started](Schedule::start). For many
    /// tasks of one period, see [`Schedule::spread`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let second = Duration::from_secs(1);
    /// let periodic = engine.every(second, |run| println!("run {}", run.number()))?;
    /// engine.advance(5 * second)?;
    /// assert_eq!(periodic.runs(), 5);
    /// assert!(periodic.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The period is zero, or the engine is full or has stopped. The error returns the task.
    pub fn every<F>(&self, period: Duration, task: F) -> Result<Periodic, StartError<F>>
    where
        F: FnMut(&Run) + Send + 'static,
    {
        Schedule::fixed_rate(period).start(self, task)
    }
}

// === impl Schedule ===

impl Schedule {
    /// A run every `period`, by the clock. Each run is due one period after the one before it *was
    /// due*, however late that one ran and however long it took. So the runs do not drift, not even
    /// by ticks: with a period of 1.5 ms, every second run falls on a whole tick of 1 ms.
    ///
    /// The first run is due one period after the start. Many tasks of one period that are started
    /// together run together each time; [`spread`](Schedule::spread) keeps them apart.
    ///
    /// Runs never overlap or pile up: the times of
    /// the grid that have passed when a run ends are skipped and [counted](Run::missed), and the
    /// next run is due at the first time that has not passed.
    /// [`catching_up`](Schedule::catching_up) makes up for missed runs instead.
    ///
    /// If the period is shorter than the engine's tick, there is one run per tick, at a time of the
    /// grid; the other times of that tick count as missed.
    ///
    /// The period is at least 1 ns; [`start`](Schedule::start) refuses zero. A period too long to
    /// represent never ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Schedule;
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let minute = Duration::from_secs(60);
    /// let periodic = Schedule::fixed_rate(minute).start(&engine, |_| println!("a minute"))?;
    /// engine.advance(60 * minute)?;
    /// assert_eq!(periodic.runs(), 60);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fixed_rate(period: Duration) -> Schedule {
        let period_ns = saturating_ns(period);
        Schedule::usual(Plan::Rate { period_ns, skips: Skips::Past })
    }

    /// A run each time `delay` has passed since the end of the last run: a pause of that length
    /// between any two runs, however long they take. The first run is due one delay after the
    /// start.
    ///
    /// Tasks of one delay that once ran in the same tick stay together from then on. For many of
    /// them, take a fixed rate that is [spread](Schedule::spread).
    ///
    /// The delay is at least 1 ns; [`start`](Schedule::start) refuses zero. A delay too long to
    /// represent never ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Schedule;
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).build()?;
    /// let second = Duration::from_secs(1);
    /// // Each run takes two seconds, and then there is a pause of one.
    /// let slow = move |_: &_| clock.advance(2 * second);
    /// let periodic = Schedule::fixed_delay(second).start(&engine, slow)?;
    /// engine.advance(9 * second)?;
    /// assert_eq!(periodic.runs(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fixed_delay(delay: Duration) -> Schedule {
        Schedule::usual(Plan::Delay { delay_ns: saturating_ns(delay) })
    }

    /// Runs at the times that a closure returns. The closure gets the time at which the last run
    /// was due (at first, the time of the start) and returns the time of the next run; `None` ends
    /// the periodic. Calendars and cron expressions plug in here.
    ///
    /// The closure is called after each run, where the task runs. A time that has passed is due at
    /// once, so runs that a slow task missed are made up for, one after another. To skip them, the
    /// closure compares its times with the clock. If it panics, the periodic is [over](super::End).
    ///
    /// Count from the time that the closure gets. Times that are counted from the present bring
    /// tasks that were late together into one tick for good.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::{End, Schedule};
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// // After 1 s, 2 s, 4 s, and no more.
    /// let mut pause = Duration::from_millis(500);
    /// let doubling = move |last: Instant| {
    ///     pause *= 2;
    ///     (pause <= Duration::from_secs(4)).then_some(last + pause)
    /// };
    /// let periodic = Schedule::from_fn(doubling).start(&engine, |_| println!("again"))?;
    /// engine.advance(Duration::from_secs(60))?;
    /// assert_eq!((periodic.runs(), periodic.end()), (3, Some(End::Finished)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_fn(next: impl FnMut(Instant) -> Option<Instant> + Send + 'static) -> Schedule {
        Schedule::usual(Plan::From(Box::new(next)))
    }

    /// Sets the time of the first run: a [`Duration`] from the start or an [`Instant`]. The other
    /// runs follow from there as the schedule says. With a [slack](When::slack), the first run is
    /// due at the time within the slack that costs the engine least, and the others count from that
    /// time. If the time has passed, or the delay is zero, the run is due at once, on the engine's
    /// thread. (A time before the engine was made counts as the time when it was.) Default: as if
    /// there had been a run at the start.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Schedule;
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let hour = Duration::from_secs(3600);
    /// let schedule = Schedule::fixed_delay(hour).starting(Duration::ZERO);
    /// let periodic = schedule.start(&engine, |_| println!("now, and then each hour"))?;
    /// engine.advance(Duration::ZERO)?;
    /// assert_eq!(periodic.runs(), 1);
    ///
    /// let noon = engine.now() + 4 * hour;
    /// let schedule = Schedule::fixed_rate(24 * hour).starting(noon);
    /// let periodic = schedule.start(&engine, |_| println!("noon"))?;
    /// assert_eq!(periodic.next_deadline(), Some(noon));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn starting(mut self, when: impl Into<When>) -> Schedule {
        self.first = Some(when.into());
        self
    }

    /// At a fixed rate, makes up for the runs that a slow task missed instead of skipping them: one
    /// after another, without a pause, until it has caught up. A task that always takes longer than
    /// its period never catches up and keeps its thread busy; even then only one run is due at a
    /// time. Other schedules skip nothing, so this does not change them.
    pub fn catching_up(mut self) -> Schedule {
        if let Plan::Rate { skips, .. } = &mut self.plan {
            *skips = Skips::Nothing;
        }
        self
    }

    /// At a fixed rate, gives the runs a phase of their own: the first run is due later by a part
    /// of a period, from zero to below one, and the others count from there. Each schedule that is
    /// spread gets another part. The parts of schedules of one period lie far apart, whatever else
    /// is started in between, and differ from process to process. Other schedules have no phase, so
    /// this does not change them.
    ///
    /// It is for many timers of one period: heartbeats, refreshes, polls. Started together, they
    /// would all run in one tick. A phase is kept over missed runs, because the times of a fixed
    /// rate do not depend on when a run took place. If each run armed the next one from the
    /// present, timers that were late together would stay together.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Schedule;
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let second = Duration::from_secs(1);
    /// for peer in 0..1000 {
    ///     Schedule::fixed_rate(second)
    ///         .starting(Duration::ZERO)
    ///         .spread()
    ///         .start(&engine, move |_| println!("a sign of life to {peer}"))?;
    /// }
    /// engine.advance(second / 2)?;
    /// let half_a_period = engine.stats().fired;
    /// assert!((480..=520).contains(&half_a_period), "{half_a_period}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spread(mut self) -> Schedule {
        self.is_spread = true;
        self
    }

    /// Starts `task` on this schedule. It runs where the engine's tasks run, and may do there what
    /// any task may. Runs never overlap. If a run panics, what runs the engine's tasks counts it
    /// (the engine in [`Stats::panicked`](crate::Stats::panicked), or the pool or runtime that it
    /// hands them to), and the next run comes as usual.
    ///
    /// One allocation, whatever the task captures; the runs do not allocate. O(1). If the returned
    /// handle is dropped, the periodic goes on. It ends by itself, by [`cancel`](Periodic::cancel),
    /// with its engine, which it does not keep alive, or if the engine's handler drops a run.
    ///
    /// # Errors
    /// The period is zero, the schedule has no first run, or the engine is full or has stopped. The
    /// error returns the task.
    ///
    /// # Panics
    /// Propagates a panic of the closure of [`from_fn`](Schedule::from_fn).
    pub fn start<F>(self, engine: &Engine, task: F) -> Result<Periodic, StartError<F>>
    where
        F: FnMut(&Run) + Send + 'static,
    {
        self.start_on(engine, task, |_| ())
    }

    /// As [`start`](Schedule::start), on an engine of other payloads: one of them carries what is
    /// [`DueRun`], and the engine's handler [runs](DueRun::run) it. `keep` gets the handle before
    /// the first run can begin: for a task that finds its own handle. If this returns an error,
    /// that handle is of a periodic that is over. If `keep` cancels it, this returns `Ok`, and
    /// nothing runs.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Builder, ManualClock};
    /// use tickless::periodic::{DueRun, Periodic, Schedule};
    ///
    /// enum Timeout {
    ///     Answer { request: u32 },
    ///     Repeats(DueRun),
    /// }
    ///
    /// impl From<DueRun> for Timeout {
    ///     fn from(due: DueRun) -> Timeout {
    ///         Timeout::Repeats(due)
    ///     }
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let engine = Builder::new().manual_clock(&clock).build_each(|timeout| match timeout {
    ///     Timeout::Answer { request } => println!("no answer to {request}"),
    ///     Timeout::Repeats(due) => due.run(),
    /// })?;
    /// let second = Duration::from_secs(1);
    /// let mut kept: Option<Periodic> = None;
    /// let flush = Schedule::fixed_rate(second);
    /// flush.start_with(&engine, |_| println!("flush"), |periodic| kept = Some(periodic))?;
    /// engine.schedule_detached(5 * second, Timeout::Answer { request: 7 })?;
    /// engine.advance(10 * second)?;
    /// assert_eq!(kept.expect("it has started").runs(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`start`](Schedule::start).
    ///
    /// # Panics
    /// As [`start`](Schedule::start). Propagates a panic of `keep`, or of the conversion into the
    /// engine's payload: the periodic is over then.
    pub fn start_with<T, F>(
        self,
        engine: &Engine<T>,
        task: F,
        keep: impl FnOnce(Periodic),
    ) -> Result<(), StartError<F>>
    where
        T: From<DueRun> + Send + 'static,
        F: FnMut(&Run) + Send + 'static,
    {
        let keep = |periodic: Periodic| {
            let armed = periodic.armed.clone();
            // So that it cannot wait for what goes on when it has returned.
            working_on(armed.core().latch(), || keep(periodic));
        };
        self.start_on(engine, task, keep).map(drop)
    }

    fn start_on<T, F>(
        self,
        engine: &Engine<T>,
        task: F,
        keep: impl FnOnce(Periodic),
    ) -> Result<Periodic, StartError<F>>
    where
        T: From<DueRun> + Send + 'static,
        F: FnMut(&Run) + Send + 'static,
    {
        let Schedule { mut plan, first, is_spread } = self;
        if let Plan::Rate { period_ns: 0, .. } | Plan::Delay { delay_ns: 0 } = plan {
            return Err(Refused::new(StartReason::ZeroPeriod, task));
        }
        let clock = engine.clock();
        let id = EngineRef::new(engine);
        let first_ns = match first {
            None => plan.next(clock.now_ns(), clock).map(|(next_ns, _)| next_ns),
            Some(when) => Some(id.due_ns(when)),
        };
        let phase_ns = match plan {
            Plan::Rate { period_ns, .. } if is_spread => next_phase_ns(period_ns),
            _ => 0,
        };
        plan.fit(id.tick());
        let Some(first_ns) = first_ns else { return Err(Refused::new(StartReason::NoRun, task)) };
        let first_ns = first_ns.saturating_add(phase_ns);
        let body = PeriodicBody { plan, task, payload: PhantomData };
        let keep = |armed: &Arc<Repeater<_>>| keep(Periodic::new(armed.clone()));
        let armed = Repeater::start(engine, id, first_ns, body, (), keep);
        Ok(Periodic::new(armed.map_err(|refused| refused.map(|body| body.task))?))
    }

    fn usual(plan: Plan) -> Schedule {
        Schedule { plan, first: None, is_spread: false }
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = Duration::from_nanos;
        match &self.plan {
            Plan::Rate { period_ns, .. } => write!(f, "Schedule::fixed_rate({:?})", ns(*period_ns)),
            Plan::Delay { delay_ns } => write!(f, "Schedule::fixed_delay({:?})", ns(*delay_ns)),
            Plan::From(_) => f.write_str("Schedule::from_fn(..)"),
        }
    }
}

/// Counts of parts: each period has one. (A few of very many periods may have to share one.)
const COUNTS: usize = 256;

/// A part of a period, from zero to below one. The parts of several calls in a row have nearly
/// equal gaps: each is the one before plus the golden ratio, without the whole. That holds among
/// those of one period, so it does not matter what else is started in between.
fn next_phase_ns(period_ns: u64) -> u64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    /// Zero: none was needed yet.
    static PARTS: [AtomicU64; COUNTS] = [const { AtomicU64::new(0) }; COUNTS];
    let hash = period_ns.wrapping_mul(GOLDEN) >> (u64::BITS - COUNTS.ilog2());
    let part = &PARTS[hash as usize];
    // ORDER: Relaxed - whether it was set; nothing else.
    if part.load(Ordering::Relaxed) == 0 {
        let seed = RandomState::new().hash_one(0);
        // ORDER: Relaxed - of several first callers, one has set it.
        _ = part.compare_exchange(0, seed, Ordering::Relaxed, Ordering::Relaxed);
    }
    // ORDER: Relaxed - a number of its own for each caller.
    let part = part.fetch_add(GOLDEN, Ordering::Relaxed);
    ((u128::from(part) * u128::from(period_ns)) >> u64::BITS) as u64
}

// === impl Periodic ===

impl Periodic {
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
}
