//! A task of an asynchronous runtime that serves an engine's shards: the runtime waits, with one of
//! its own timers for all of the engine's.
//!
//! ```text
//!   leave the waker ─► a turn of each shard ─┬─► more to do: come again ─────────────► pending
//!   that was rung or has something due       └─► sleep until the first needs a turn ─► pending
//! ```
//!
//! *Owner*: the task that is polled. It does not hold the engine: who drops the last clone stops it
//! and waits for the turn that is under way.
//!
//! *Orderings*: DOORBELL; see `doorbell::listener`.
//!
//! *Tested by*: `tests/drive.rs`, `tests/drive_attacks.rs`, `tests/drive_live.rs`,
//! `loom-tests/tests/listener.rs`.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use crate::doorbell::{Listening, Turner};
use crate::error::TurnError;
use crate::sync::{Arc, Weak};

use super::core::Core;
use super::{Engine, Turn};

/// How many timers fire at most, before other tasks of the runtime go on.
const AT_ONCE: usize = 256;

/// How often one poll looks for work: at first, and when its sleep is over at once.
const LOOKS: usize = 2;

/// A task that serves an engine's shards.
struct DrivingTask<T: Send + 'static> {
    engine: Weak<Core<T>>,
    listening: Listening,
    /// The last turn of each shard.
    turns: Vec<Turn>,
    /// The shard whose turn comes first.
    first: usize,
    /// When the runtime's sleep ends, if there is one.
    until: Option<Instant>,
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
        let turns = vec![Turn { fired: 0, more: true, next: None }; core.all_shards()];
        Ok(Some(DrivingTask { engine, listening, turns, first: 0, until: None }))
    }

    fn poll<F: Future>(
        &mut self,
        sleep_until: &mut impl FnMut(Instant) -> F,
        mut sleep: Pin<&mut Option<F>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TurnError>> {
        let Some(core) = self.engine.upgrade() else { return Poll::Ready(Ok(())) };
        for _ in 0..LOOKS {
            match self.serve(&core, cx) {
                Ok(()) => {}
                Err(TurnError::Stopped) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            if self.turns.iter().any(|turn| turn.more) {
                break;
            }
            let next = self.turns.iter().filter_map(|turn| turn.next).min();
            if self.until != next {
                // The sleep before ends first.
                sleep.set(None);
                sleep.set(next.map(&mut *sleep_until));
                self.until = next;
            }
            match sleep.as_mut().as_pin_mut().map(|sleep| sleep.poll(cx)) {
                None | Some(Poll::Pending) => return Poll::Pending,
                Some(Poll::Ready(_)) => {
                    sleep.set(None);
                    self.until = None;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Runs turns of the shards that need one.
    ///
    /// # Errors
    /// The engine has stopped, or this may not run its turns.
    fn serve(&mut self, core: &Core<T>, cx: &Context<'_>) -> Result<(), TurnError> {
        core.may_turn()?;
        let rings = self.listening.hear(cx.waker());
        let now = core.instant_now();
        let mut left = AT_ONCE;
        for shard in (self.first..self.turns.len()).chain(0..self.first) {
            let turn = &mut self.turns[shard];
            turn.more |= rings.take(shard) || turn.next.is_some_and(|next| next <= now);
            if turn.more && left > 0 {
                let (part, index) = core.part(shard);
                *turn = part.turn(Turner::Task, index, left)?;
                left -= turn.fired;
                if left == 0 {
                    self.first = (shard + 1) % self.turns.len();
                }
            }
        }
        Ok(())
    }
}
