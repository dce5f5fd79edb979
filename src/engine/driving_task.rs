//! A task of an asynchronous runtime that serves an engine's shards: the runtime waits, with one of
//! its own timers for all of the engine's.
//!
//! ```text
//!   is the wait over? leave the waker, take the notes of the rings ◄────────────┐
//!     ├─ rung ────────► read the notices: when does the shard need a turn? ─┐   │
//!     ├─ wait is over ► a turn of each shard that has something due ────────┼─► │ more: come again
//!     └─ else ────────► is something due by the engine's clock?             │   │
//!                       wait until the first needs a turn ◄─────────────────┘ ──┘
//! ```
//!
//! A ring tells mostly of a timer that is due before the others, and not yet. So it takes the
//! notices, and no turn. A turn follows if something is due: then the wait is over at once.
//!
//! How the task waits is a [`Wait`]: by a sleep of the runtime, and then a ring wakes the task; or,
//! on tokio, by a timer of the system (`on_tokio`). A ring sets that to when its timer is due, and
//! the task has a turn then, without having looked before.
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

use crate::doorbell::{Listening, Rings};
use crate::error::TurnError;
use crate::sync::{Arc, Weak};
use crate::time::Clock;

use super::core::Core;
#[cfg(feature = "tokio")]
use super::stealable::Stealable;
use super::{Engine, Turn};

/// How many timers a poll fires at most, before other tasks of the runtime go on.
const AT_ONCE: usize = 256;

/// How often one poll serves the shards: at first, and when its sleep is over at once.
const LOOKS: usize = 2;

/// How a task waits until it is to serve the shards again.
pub(super) trait Wait {
    /// Whether the wait is over, and until when it was, if that is known. Otherwise the task is
    /// woken when it is over.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>>;

    /// The rings so far. The next one ends the wait, or wakes the task.
    fn hear<'a>(&mut self, listening: &'a mut Listening, cx: &mut Context<'_>) -> Rings<'a>;

    /// Waits until then (`None`: until rung). The caller takes the notes of the rings after this.
    fn set(&mut self, until: Option<Instant>, clock: &Clock);
}

/// A wait by sleeps of the runtime. Rings wake the task.
pub(super) struct Sleeps<'a, S, F> {
    sleep_until: S,
    sleep: Pin<&'a mut Option<F>>,
    /// When the sleep ends, if there is one.
    until: Option<Instant>,
    #[cfg(feature = "tokio")]
    stealable: Stealable,
}

/// A task that serves an engine's shards.
struct DrivingTask<T: Send + 'static> {
    engine: Weak<Core<T>>,
    listening: Listening,
    shards: Vec<Served>,
    /// The shard whose turn comes first.
    first: usize,
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
    /// On tokio, [`build_on_tokio`](crate::Builder::build_on_tokio) (feature `tokio`) does better.
    ///
    /// Timers are as late as sleeps of the runtime: they wait for the resolution of `sleep_until`,
    /// on top of that of the engine, and while a task keeps the thread that is to serve them. (On
    /// tokio's runtime with several threads, and with the feature `tokio`, a second task sees to it
    /// that another thread serves them then.) If much is due, other tasks go on after
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
        sleep_until: S,
    ) -> impl Future<Output = Result<(), TurnError>> + use<T, S, F>
    where
        S: FnMut(Instant) -> F,
        F: Future,
    {
        let core = Arc::downgrade(&self.inner.core);
        async move {
            let mut sleep = pin!(None);
            serve(core, Sleeps::new(sleep_until, sleep.as_mut())).await
        }
    }
}

/// Serves an engine's shards until it is stopped.
///
/// # Errors
/// As [`Engine::drive`].
pub(super) async fn serve<T: Send + 'static>(
    engine: Weak<Core<T>>,
    mut wait: impl Wait,
) -> Result<(), TurnError> {
    let Some(mut task) = DrivingTask::new(engine)? else { return Ok(()) };
    poll_fn(|cx| task.poll(&mut wait, cx)).await
}

// === impl Sleeps ===

impl<'a, S, F> Sleeps<'a, S, F>
where
    S: FnMut(Instant) -> F,
    F: Future,
{
    /// A wait by such sleeps, the present one of which is kept in `sleep`.
    pub(super) fn new(sleep_until: S, sleep: Pin<&'a mut Option<F>>) -> Sleeps<'a, S, F> {
        Sleeps {
            sleep_until,
            sleep,
            until: None,
            #[cfg(feature = "tokio")]
            stealable: Stealable::default(),
        }
    }
}

impl<S, F> Wait for Sleeps<'_, S, F>
where
    S: FnMut(Instant) -> F,
    F: Future,
{
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        match self.sleep.as_mut().as_pin_mut().map(|sleep| sleep.poll(cx)) {
            None | Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(_)) => {
                self.sleep.set(None);
                Poll::Ready(self.until.take())
            }
        }
    }

    #[cfg(not(feature = "tokio"))]
    fn hear<'a>(&mut self, listening: &'a mut Listening, cx: &mut Context<'_>) -> Rings<'a> {
        listening.hear(cx.waker())
    }

    #[cfg(feature = "tokio")]
    fn hear<'a>(&mut self, listening: &'a mut Listening, cx: &mut Context<'_>) -> Rings<'a> {
        listening.hear(self.stealable.waker(cx))
    }

    fn set(&mut self, until: Option<Instant>, _: &Clock) {
        if self.until != until {
            // The sleep before ends first.
            self.sleep.set(None);
            self.sleep.set(until.map(&mut self.sleep_until));
            self.until = until;
        }
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
        Ok(Some(DrivingTask { engine, listening, shards, first: 0 }))
    }

    fn poll(&mut self, wait: &mut impl Wait, cx: &mut Context<'_>) -> Poll<Result<(), TurnError>> {
        let Some(core) = self.engine.upgrade() else { return Poll::Ready(Ok(())) };
        core.may_turn()?;
        let (mut looks, mut left) = (0, AT_ONCE);
        loop {
            let over = wait.poll_over(cx);
            let rings = wait.hear(&mut self.listening, cx);
            let mut is_wanted = false;
            for (shard, served) in self.shards.iter_mut().enumerate() {
                served.is_rung |= rings.take(shard);
                // A ring may have set the time that has come.
                served.turn.more |= served.is_rung && over == Poll::Ready(None);
                is_wanted |= served.is_rung || served.turn.more;
            }
            match over {
                Poll::Ready(until) => self.note_due(until.unwrap_or_else(|| core.instant_now())),
                Poll::Pending if is_wanted => {}
                // Polled for no reason: the clock may have been moved by hand.
                Poll::Pending if looks == 0 => self.note_due(core.instant_now()),
                Poll::Pending => return Poll::Pending,
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
            wait.set(next, &core.clock);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Notes which shards have something due at `now`.
    fn note_due(&mut self, now: Instant) {
        for Served { turn, .. } in &mut self.shards {
            turn.more |= turn.next.is_some_and(|next| next <= now);
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
                // Other tasks wait, even while nothing fires.
                served.turn = core.turn(shard, *left, *left)?;
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
        let mut role = self.ending.try_take_role(index)?;
        let (context, in_hand) = self.turn_context(index, &mut role);
        let report = context.look_ahead(in_hand)?;
        Some(Turn { fired: 0, more: report.busy, next: self.instant_of(report.next) })
    }
}
