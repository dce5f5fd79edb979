//! A task of an asynchronous runtime that serves an engine's shards: the runtime waits, with one of
//! its own timers for all of the engine's.
//!
//! ```text
//!   leave the waker, take the notes of the rings
//!     ├─ rung ─────────► read the notices: when does the shard need a turn? ─┐
//!     ├─ sleep is over ► a turn of each shard that has something due ────────┼─► more: come again
//!     └─ else ─────────► is something due by the engine's clock?             │
//!                        sleep until the first needs a turn ◄────────────────┘
//! ```
//!
//! A ring tells mostly of a timer that is due before the others, and not yet. So it takes the
//! notices, and no turn. A turn follows if something is due: then the sleep is over at once.
//!
//! *Owner*: the task that is polled. It does not hold the engine: who drops the last clone stops it
//! and waits for the turn that is under way.
//!
//! *Orderings*: DOORBELL; see `doorbell::listener`.
//!
//! *Tested by*: `tests/suite/drive/steps.rs`, `tests/suite/drive/attacks.rs`,
//! `tests/suite/drive/live.rs`, `loom-tests/tests/listener.rs`.

use std::future::{Future, poll_fn};
use std::iter;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

#[cfg(feature = "tokio")]
use tokio::{
    runtime::Handle,
    time::{Instant as TokioInstant, sleep_until},
};

use crate::doorbell::{Listening, Turner};
#[cfg(feature = "tokio")]
use crate::error::BuildError;
use crate::error::TurnError;
use crate::sync::{Arc, Weak};

use super::core::Core;
#[cfg(feature = "tokio")]
use super::{Builder, Driver};
use super::{Engine, Turn};

/// How many timers a poll fires at most, before other tasks of the runtime go on.
const AT_ONCE: usize = 256;

/// How often one poll serves the shards: at first, and when its sleep is over at once.
const LOOKS: usize = 2;

/// A task that serves an engine's shards.
struct DrivingTask<T: Send + 'static> {
    engine: Weak<Core<T>>,
    listening: Listening,
    shards: Vec<Served>,
    /// The shard whose turn comes first.
    first: usize,
    /// When the runtime's sleep ends, if there is one.
    until: Option<Instant>,
}

/// A shard, as the task knows it.
struct Served {
    /// It was rung since the task looked after it.
    is_rung: bool,
    /// The last turn, or what was found instead. `more`: it needs a turn.
    turn: Turn,
}

// === impl Engine: driven by a task ===

impl<T: Send + 'static> Engine<T> {
    /// Serves all shards from a task of an asynchronous runtime, for engines that their caller
    /// drives ([`Driver::Caller`](crate::Driver::Caller)). Then no thread of the engine wakes the
    /// runtime's threads: what is due is handed over, and sleeps wake their tasks, on the runtime's
    /// own. `sleep_until` is the runtime's timer, of which the engine uses one at a time.
    ///
    /// The engine is as late as its runtime: timers wait while a task keeps the thread that is to
    /// serve them, and for the resolution of `sleep_until`. If much is due, other tasks go on after
    /// 256 timers. If another thread runs a turn of a shard ([`turn`](Engine::turn)), the task
    /// waits for that turn, and keeps its thread of the runtime meanwhile. The runtime's sleep
    /// follows the engine's clock, so a manual clock, or one that counts suspended time, needs
    /// another `sleep_until` than the one shown.
    ///
    /// The future ends when the engine is stopped. It does not keep the engine alive. If it is
    /// dropped, timers wait until another is polled.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Driver, Engine};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # runtime.block_on(async {
    /// let engine = Engine::builder().driver(Driver::Caller).shards(1).build()?;
    /// // With smol: `engine.drive(smol::Timer::at)`.
    /// let served = tokio::spawn(engine.drive(|at| tokio::time::sleep_until(at.into())));
    ///
    /// engine.sleep(Duration::from_millis(5)).await;
    /// engine.stop()?;
    /// assert_eq!(served.await?, Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine has threads of its own, or another task serves it; the task is polled by one of
    /// the engine's own tasks, or in a child process of the one that built the engine.
    ///
    /// # Panics
    /// If `sleep_until` or its future panics.
    pub fn drive<S, F>(
        &self,
        mut sleep_until: S,
    ) -> impl Future<Output = Result<(), TurnError>> + use<T, S, F>
    where
        S: FnMut(Instant) -> F,
        F: Future,
    {
        let engine = Arc::downgrade(&self.inner.core);
        async move {
            let Some(mut task) = DrivingTask::new(engine)? else { return Ok(()) };
            let mut sleep = pin!(None);
            poll_fn(move |cx| task.poll(&mut sleep_until, sleep.as_mut(), cx)).await
        }
    }
}

// === impl Builder: on tokio ===

#[cfg(feature = "tokio")]
impl Builder {
    /// Builds an engine for closures that the current tokio runtime serves: a task of the runtime
    /// does what threads of the engine do otherwise. This is the engine for programs whose timers
    /// are those of one runtime's tasks: no other thread wakes the runtime's threads.
    ///
    /// It is short for a [`driver`](Builder::driver) that is the caller, [`build`](Builder::build),
    /// and a spawned [`drive`](Engine::drive) with the runtime's own sleep. What holds for `drive`
    /// holds here: the engine is as late as its runtime, closures run on the runtime's threads and
    /// should be short, and the task ends when the engine stops or its last clone is dropped. When
    /// the runtime shuts down, the engine's timers stay as they are until another task serves them.
    /// So each runtime of a process needs an engine of its own. (The runtime's sleeps do not count
    /// suspended time: by a [clock that does](crate::Clock::boottime), timers may be late after a
    /// suspension.)
    ///
    /// With [`Engine::set_global`], all code that names no engine runs on it:
    ///
    /// ```standalone_crate
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// Engine::set_global(Engine::builder().build_on_tokio()?)?;
    ///
    /// tickless::sleep(Duration::from_millis(5)).await;
    /// let answer = tickless::timeout(Duration::from_secs(5), async { 7 }).await?;
    /// # assert_eq!((answer, Engine::global().stats().fired), (7, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`build`](Builder::build). The clock is one that is moved by hand: the runtime's sleeps
    /// do not follow it.
    ///
    /// # Panics
    /// If there is no current tokio runtime, or it has no timers
    /// ([`enable_time`](tokio::runtime::Builder::enable_time)).
    pub fn build_on_tokio(self) -> Result<Engine, BuildError> {
        let runtime = Handle::current();
        // Without timers of the runtime, this panics here and not in the task.
        drop(sleep_until(TokioInstant::now()));
        if self.is_by_hand() {
            return Err(BuildError::ManualClockWithThreads);
        }
        let engine = self.driver(Driver::Caller).build()?;
        runtime.spawn(engine.drive(|at| sleep_until(at.into())));
        Ok(engine)
    }
}

// === impl DrivingTask ===

impl<T: Send + 'static> DrivingTask<T> {
    /// `None`: the engine is gone.
    ///
    /// # Errors
    /// The engine has threads, or another task serves it.
    fn new(engine: Weak<Core<T>>) -> Result<Option<DrivingTask<T>>, TurnError> {
        let Some(core) = engine.upgrade() else { return Ok(None) };
        core.may_turn()?;
        let listener = core.listener.as_ref().ok_or(TurnError::Driven)?;
        let listening = listener.listen().ok_or(TurnError::Driven)?;
        // Nothing is known of the shards yet.
        let unknown = || Served { is_rung: false, turn: Turn { fired: 0, more: true, next: None } };
        let shards = iter::repeat_with(unknown).take(core.shards.len()).collect();
        Ok(Some(DrivingTask { engine, listening, shards, first: 0, until: None }))
    }

    fn poll<F: Future>(
        &mut self,
        sleep_until: &mut impl FnMut(Instant) -> F,
        mut sleep: Pin<&mut Option<F>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TurnError>> {
        let Some(core) = self.engine.upgrade() else { return Poll::Ready(Ok(())) };
        core.may_turn()?;
        let rings = self.listening.hear(cx.waker());
        let mut is_wanted = false;
        for (shard, served) in self.shards.iter_mut().enumerate() {
            served.is_rung |= rings.take(shard);
            is_wanted |= served.is_rung || served.turn.more;
        }
        let (mut looks, mut left) = (0, AT_ONCE);
        loop {
            if !is_wanted {
                match sleep.as_mut().as_pin_mut().map(|sleep| sleep.poll(cx)) {
                    None => return Poll::Pending,
                    Some(Poll::Ready(_)) => {
                        sleep.set(None);
                        let until = self.until.take();
                        self.note_due(until);
                    }
                    // Polled for no reason: the clock may have been moved by hand.
                    Some(Poll::Pending) if looks == 0 => self.note_due(Some(core.instant_now())),
                    Some(Poll::Pending) => return Poll::Pending,
                }
            }
            if looks == LOOKS {
                break;
            }
            looks += 1;
            let (more, next) = match self.serve(&core, &mut left) {
                Ok(found) => found,
                Err(TurnError::Stopped) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            };
            if more {
                break;
            }
            is_wanted = false;
            if self.until != next {
                // The sleep before ends first.
                sleep.set(None);
                sleep.set(next.map(&mut *sleep_until));
                self.until = next;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Notes which shards have something due at `now`.
    fn note_due(&mut self, now: Option<Instant>) {
        for Served { turn, .. } in &mut self.shards {
            turn.more |= turn.next.is_some_and(|next| Some(next) <= now);
        }
    }

    /// Runs turns of the shards that need one, which fire at most `left` timers, and looks after
    /// those that were rung. Returns whether there is more to do at once, and when the first of the
    /// shards needs a turn.
    ///
    /// # Errors
    /// The engine has stopped.
    #[inline]
    fn serve(
        &mut self,
        core: &Core<T>,
        left: &mut usize,
    ) -> Result<(bool, Option<Instant>), TurnError> {
        let (mut more, mut soonest) = (false, None);
        for shard in (self.first..self.shards.len()).chain(0..self.first) {
            let served = &mut self.shards[shard];
            if mem::take(&mut served.is_rung) && !served.turn.more {
                match core.look_ahead(shard) {
                    Some(turn) => served.turn = turn,
                    None => served.turn.more = true,
                }
            }
            if served.turn.more && *left > 0 {
                served.turn = core.turn(Turner::Task, shard, *left)?;
                *left -= served.turn.fired;
                if *left == 0 {
                    self.first = (shard + 1) % self.shards.len();
                }
            }
            let Turn { more: has_more, next, .. } = self.shards[shard].turn;
            more |= has_more;
            soonest = soonest.into_iter().chain(next).min();
        }
        Ok((more, soonest))
    }
}

// === impl Core: instead of a turn ===

impl<T: Send + 'static> Core<T> {
    /// Finds out when a shard that was rung needs its next turn, and publishes that, as its turn
    /// would. `None`: the shard needs a turn now, or may need one.
    fn look_ahead(&self, index: usize) -> Option<Turn> {
        let mut role = self.ending.try_take(index)?;
        // Others may have left work, and rung for it.
        if self.shards[index].doorbell().has_others(Turner::Task) {
            return None;
        }
        let (context, in_hand) = self.turn_context(index, &mut role);
        let report = context.look_ahead(in_hand)?;
        Some(Turn { fired: 0, more: report.busy, next: self.instant_of(report.next) })
    }
}
