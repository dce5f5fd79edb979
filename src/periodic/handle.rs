//! The caller's handle of what repeats; and of a periodic, one run as its task sees it and the body
//! that runs the task.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::dispatch::Panics;
use crate::engine::{Cancel, CancelOnDrop};
use crate::sync::Arc;
use crate::wait::{Cancelled, Ends, WaitError, deadline_in, wait_for_end};

use super::armed::{Armed, Body, Due, Next, Repeating};
use super::schedule::Plan;
use super::{End, Retry, Schedule};

/// The caller's handle of something that repeats, a [`Periodic`] or a [`Retrying`]: cancel or
/// inspect it. `K` is what it was started by.
///
/// Clones are cheap and refer to the same thing. One handle serves for all runs, from any thread,
/// including from inside the closures. If every clone is dropped, the thing goes on;
/// [`cancel_on_drop`](Repeated::cancel_on_drop) changes that. A handle may outlive its engine; the
/// thing is over when its last run is, and nobody keeps the payload for the next one.
pub struct Repeated<K> {
    pub(super) armed: Arc<dyn Repeating>,
    kind: PhantomData<fn() -> K>,
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

/// The caller's handle of a retry that is under way.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{Backoff, Retry, Retrying};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let attempt = |_| Err::<(), _>("no route");
/// let retrying: Retrying = Retry::new(Backoff::new(second)).run(&engine, attempt, drop)?;
/// engine.advance(4 * second)?;
/// assert_eq!(retrying.attempts(), 3, "at 0, 1 and 3 seconds");
/// assert!(retrying.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Retrying = Repeated<Retry>;

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

// === impl Repeated ===

impl<K> Repeated<K> {
    pub(super) fn new(armed: Arc<dyn Repeating>) -> Repeated<K> {
        Repeated { armed, kind: PhantomData }
    }

    /// Cancels the thing. Returns `true` to one caller: no further run or attempt begins, and what
    /// an attempt under way brings does not count. The closures, with what they captured, were
    /// dropped here, on this thread, and that for the outcome of a retry was called before, with
    /// [`Outcome::Ended`](super::Outcome::Ended). If a closure is just being called, all this
    /// happens when that returns instead, there, and this call does not wait for it. `false`: the
    /// thing was over before.
    ///
    /// [`runs`](Periodic::runs) includes a run that is under way, and does not change from here on.
    ///
    /// Two compare-and-swaps; never waits. O(1).
    ///
    /// # Panics
    /// Propagates a panic of what is called or dropped, after everything else is done.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Backoff, Retry, Schedule};
    /// let engine = Engine::new()?;
    /// let hourly = Schedule::fixed_rate(Duration::from_secs(3600)).start(&engine, |_| ())?;
    /// assert!(hourly.cancel());
    /// assert_eq!(engine.len(), 0);
    /// assert!(!hourly.cancel(), "it was cancelled before");
    ///
    /// let attempt = |_| Err::<(), _>("no route");
    /// let retry = Retry::new(Backoff::new(Duration::from_secs(9)));
    /// assert!(retry.run(&engine, attempt, drop)?.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.armed.cancel()
    }

    /// Cancels the thing, and waits until a closure of it that is being called has returned. When
    /// this returns `Ok`, nothing of it runs any more, and the closures with what they captured are
    /// dropped. Returns how it ended, also if another handle ended it. See [`wait`](crate::wait).
    ///
    /// An [`Attempt`](super::Attempt) that was passed on to another thread is not waited for.
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
    /// The wait would not end (from inside a closure, for example): see [`WaitError`]. The thing is
    /// cancelled all the same.
    ///
    /// # Panics
    /// As [`cancel`](Repeated::cancel).
    pub fn cancel_wait(&self) -> Result<End, WaitError> {
        self.cancel();
        wait_for_end(self.armed.core(), None)
    }

    /// As [`cancel_wait`](Repeated::cancel_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`cancel_wait`](Repeated::cancel_wait), or a closure is still being called:
    /// [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`cancel`](Repeated::cancel).
    pub fn cancel_wait_within(&self, limit: Duration) -> Result<End, WaitError> {
        self.cancel();
        wait_for_end(self.armed.core(), deadline_in(limit))
    }

    /// Cancels the thing, now. The future waits as [`cancel_wait`](Repeated::cancel_wait) does. If
    /// it is dropped, the thing stays cancelled, and a closure may still be running.
    ///
    /// # Panics
    /// As [`cancel`](Repeated::cancel).
    pub fn cancelled(&self) -> Cancelled<'_, End> {
        self.cancel();
        Cancelled::new(self.armed.core())
    }

    /// Waits until the thing is over, and returns how it ended. It does not cancel. When this
    /// returns `Ok`, nothing of it runs any more, the closure for the outcome of a retry has
    /// returned, and all closures are dropped.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The wait would not end, since the calling task is part of the thing, for example: see
    /// [`WaitError`]. A task of the engine may wait when it may await a [sleep](crate::future), but
    /// never if the engine has payloads of your own: a stop would wait for that task, and then
    /// return the payload for the next run.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::{Backoff, End, Retry, Run};
    /// let engine = Engine::new()?;
    /// let thrice = |run: &Run| {
    ///     if run.number() == 3 {
    ///         run.cancel();
    ///     }
    /// };
    /// let periodic = engine.every(Duration::from_millis(1), thrice)?;
    /// assert_eq!(pollster::block_on(periodic.ended())?, End::Cancelled);
    ///
    /// let attempt = |number| if number < 3 { Err("not yet") } else { Ok(number) };
    /// let retry = Retry::new(Backoff::new(Duration::from_millis(1)));
    /// let retrying = retry.run(&engine, attempt, |outcome| println!("{outcome:?}"))?;
    /// assert_eq!(pollster::block_on(retrying.ended())?, End::Finished);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn ended(&self) -> Result<End, WaitError> {
        let core = self.armed.core();
        let mut ended = Cancelled::new(core);
        poll_fn(|cx| {
            if core.ended().is_none() && self.armed.must_not_wait() {
                return Poll::Ready(Err(WaitError::Circular));
            }
            Pin::new(&mut ended).poll(cx)
        })
        .await
    }

    /// Whether it is not over yet.
    pub fn is_running(&self) -> bool {
        self.end().is_none()
    }

    /// Why it is over; `None` if it is not. [`End::Finished`]: the schedule has no further run, or
    /// the retry succeeded or gave up.
    pub fn end(&self) -> Option<End> {
        self.armed.core().word.end()
    }

    /// Turns the handle into one that cancels the thing when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<Repeated<K>> {
        CancelOnDrop::new(self)
    }
}

impl<K> Cancel for Repeated<K> {
    fn cancel(self) {
        Repeated::cancel(&self);
    }
}

// Not derived: that would require the same of `K`.
impl<K> Clone for Repeated<K> {
    fn clone(&self) -> Repeated<K> {
        Repeated::new(self.armed.clone())
    }
}

unwind_safe! { impl[K] Repeated[K] }

debug! { impl[K] Repeated[K] {
    end = |this| this.end(),
    due_ns = |this| this.armed.core().due_ns(),
    tally = |this| this.armed.core().tally(),
} }

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

impl Retrying {
    /// How many attempts have begun.
    pub fn attempts(&self) -> u32 {
        self.armed.core().tally() as u32
    }
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
