//! Turns that callers run, for engines without threads. Clocks that are moved by hand are in
//! `virtual_time`.

use std::time::{Duration, Instant};

use crate::dispatch::{work_for, works_for, yield_while};
use crate::error::TurnError;
use crate::reaper::TurnContext;

use super::Engine;
use super::core::{Core, Role};

/// The result of a turn: what it did, and when the next one is needed.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
///
/// let clock = ManualClock::new();
/// let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
/// engine.schedule_detached(Duration::from_secs(1), || println!("due"))?;
/// let turn = engine.turn(0)?;
/// assert_eq!((turn.fired, turn.more), (0, false));
/// assert!(turn.next.is_some_and(|next| next > engine.now()), "there is time to sleep");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// How many timers were handed over.
    pub fired: usize,
    /// Whether there is more to do at once: timers beyond `max_fired`, or background work.
    pub more: bool,
    /// When the shard needs its next turn. `None`: not before a timer is scheduled on it.
    pub next: Option<Instant>,
}

// === impl Turn ===

impl Turn {
    /// Returns how long the caller may sleep before the shard's next turn, by the engine's time:
    /// zero if there is more to do, `None` if nothing is scheduled. A timer that is scheduled
    /// meanwhile may need an earlier turn: see [`on_earlier`](crate::Builder::on_earlier).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
    /// assert_eq!(engine.turn(0)?.sleep(engine.now()), None, "until somebody calls");
    /// engine.schedule_detached(Duration::from_millis(20), || println!("due"))?;
    /// let sleep = engine.turn(0)?.sleep(engine.now());
    /// assert_eq!(sleep, Some(Duration::from_millis(20)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sleep(&self, now: Instant) -> Option<Duration> {
        if self.more {
            return Some(Duration::ZERO);
        }
        self.next.map(|next| next.saturating_duration_since(now))
    }
}

// === impl Engine: driven by the caller ===

impl<T: Send + 'static> Engine<T> {
    /// Runs one turn of a shard: fires the timers that are due by the engine's clock.
    ///
    /// This is for engines that their caller drives ([`Driver::Caller`](crate::Driver::Caller)).
    /// Turns of different shards may run at the same time; a second turn of one shard waits for the
    /// first. A turn ends whatever its tasks do: a timer that a task schedules without a delay
    /// fires in this turn only if another timer that is due at the very same tick is still to come,
    /// else in the next turn.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Builder, ManualClock};
    /// # let clock = ManualClock::new();
    /// let engine = Builder::new().manual_clock(&clock).shards(1).build_with_handler(
    ///     |batch: Batch<'_, &str>| batch.for_each(|what| println!("{what}")),
    /// )?;
    /// engine.schedule_detached(Duration::from_millis(5), "ping")?;
    /// let mut fired = 0;
    /// while let Some(sleep) = engine.turn(0)?.sleep(engine.now()) {
    ///     // An event loop would wait for its events here, no longer than `sleep`.
    ///     clock.advance(sleep);
    ///     fired += engine.turn(0)?.fired;
    /// }
    /// assert_eq!(fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// One loop runs the turns of a shard. If another thread runs one as well, or takes the shard
    /// over, it alone is told when the next one is needed, and has to see to it: the loop, or the
    /// task that [drives](Engine::drive) the engine, is not woken.
    ///
    /// # Errors
    /// The engine has threads of its own, the call comes from one of its tasks, there is no such
    /// shard, the engine has stopped, or it belongs to the parent process. (A turn that a stop cuts
    /// short returns how many timers it fired, with `more`; the next turn returns the error.)
    pub fn turn(&self, shard: usize) -> Result<Turn, TurnError> {
        self.turn_at_most(shard, usize::MAX)
    }

    /// As [`turn`](Engine::turn), but fires at most `max_fired` timers, which bounds the time that
    /// the thread spends here. The next turn fires the rest. If more than 4,096 timers are due at
    /// one tick, what has become due meanwhile goes before the rest of them: see
    /// [`Batch`](crate::Batch).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Builder, ManualClock};
    /// let clock = ManualClock::new();
    /// let engine = Builder::new().manual_clock(&clock).shards(1).build_with_handler(
    ///     |batch: Batch<'_, u32>| batch.for_each(|connection| println!("{connection} is idle")),
    /// )?;
    /// for connection in 0..5 {
    ///     engine.schedule_detached(Duration::from_secs(1), connection)?;
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let turn = engine.turn_at_most(0, 3)?;
    /// assert_eq!((turn.fired, turn.more), (3, true));
    /// assert_eq!(engine.turn_at_most(0, 3)?.fired, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`turn`](Engine::turn).
    pub fn turn_at_most(&self, shard: usize, max_fired: usize) -> Result<Turn, TurnError> {
        self.core().may_turn_shard(shard)?;
        self.core().turn(shard, max_fired, usize::MAX)
    }

    /// Returns when a shard needs its next turn, without running one: for a loop that is about to
    /// sleep, and has scheduled timers since its last turn. [`fired`](Turn::fired) is zero;
    /// [`more`](Turn::more) means that there is something to do now, so that the loop takes a turn
    /// in place of its sleep.
    ///
    /// From this call on, what the calling thread itself schedules does not call the hook
    /// ([`on_earlier`](crate::Builder::on_earlier)): the loop is awake, and asks again before it
    /// sleeps. So a thread that calls this always calls it, or [`turn`](Engine::turn), as the last
    /// thing that it does with the engine before it sleeps.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Builder, ManualClock};
    /// # let clock = ManualClock::new();
    /// let engine = Builder::new().manual_clock(&clock).shards(1).build()?;
    /// engine.turn(0)?;
    /// # let mut events = 3;
    /// loop {
    ///     // An event loop waits for its events here, no longer than `sleep`.
    ///     let sleep = engine.look_ahead(0)?.sleep(engine.now());
    ///     # clock.advance(sleep.unwrap_or_default());
    ///     engine.schedule_detached(Duration::from_millis(20), || println!("no answer"))?;
    ///     engine.turn(0)?;
    ///     # events -= 1;
    ///     # if events == 0 { break };
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`turn`](Engine::turn).
    pub fn look_ahead(&self, shard: usize) -> Result<Turn, TurnError> {
        let core = self.core();
        core.may_turn_shard(shard)?;
        core.next_turn(shard)
    }

    /// Takes a shard over from a turn that is busy with a task, on another thread, and runs a turn
    /// in its place: first it fires what that turn has collected and not begun, in order. Returns
    /// `None` if no turn of the shard is busy with a task.
    ///
    /// With threads of its own, the engine does this by itself ([`takeover`]). If its caller drives
    /// it, the caller decides when a task has taken too long, and what that promises is the same:
    /// each payload is handed over once, tasks begin in order, and from here on two tasks of one
    /// shard may run at the same time. The turn that lost its shard ends with its task, and returns
    /// with [`more`](Turn::more) set: the shard is as it was, and any thread may run its next turn.
    /// Turns that wait for the shard go on after this one.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::thread;
    /// use std::time::Duration;
    /// use tickless::{Driver, Engine};
    ///
    /// let engine = Engine::builder().driver(Driver::Caller).shards(1).build()?;
    /// let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    /// engine.schedule_detached(Duration::ZERO, move || {
    ///     begin.send(()).unwrap();
    ///     let _ = released.recv();
    /// })?;
    /// thread::scope(|threads| {
    ///     threads.spawn(|| while engine.turn(0).is_ok_and(|turn| turn.fired == 0) {});
    ///     begun.recv().unwrap();
    ///     // It takes too long. Other timers of its shard go on here.
    ///     engine.schedule_detached(Duration::ZERO, || println!("due")).unwrap();
    ///     let mut fired = engine.take_over(0).unwrap().map_or(0, |turn| turn.fired);
    ///     while fired == 0 {
    ///         fired = engine.turn(0).unwrap().fired;
    ///     }
    ///     drop(release);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`turn`](Engine::turn).
    ///
    /// [`takeover`]: crate::Builder::takeover
    pub fn take_over(&self, shard: usize) -> Result<Option<Turn>, TurnError> {
        let core = self.core();
        core.may_turn_shard(shard)?;
        if core.is_stopping() {
            return Err(TurnError::Stopped);
        }
        let seen = core.ending.progress(shard);
        let Some(role) = seen.and_then(|seen| core.ending.take_over(shard, seen, || ())) else {
            return Ok(None);
        };
        let succeed = |context: &TurnContext<'_, T>| context.succeed();
        core.turn_in(shard, role, usize::MAX, usize::MAX, succeed).map(Some)
    }
}

// === impl Core: a turn ===

impl<T: Send + 'static> Core<T> {
    /// # Errors
    /// The caller may not run turns of the engine.
    pub(super) fn may_turn(&self) -> Result<(), TurnError> {
        if self.is_inherited() {
            return Err(TurnError::Forked);
        }
        if self.has_threads() {
            return Err(TurnError::Driven);
        }
        if works_for(self.party()) {
            return Err(TurnError::InsideTask);
        }
        Ok(())
    }

    /// The same, and whether there is such a shard.
    fn may_turn_shard(&self, shard: usize) -> Result<(), TurnError> {
        self.may_turn()?;
        let shards = self.shards.len();
        if shard < shards { Ok(()) } else { Err(TurnError::NoSuchShard { shard, shards }) }
    }

    /// Runs one turn, which fires and visits no more than so many timers, and publishes when the
    /// shard needs the next.
    pub(super) fn turn(
        &self,
        index: usize,
        max_fired: usize,
        budget: usize,
    ) -> Result<Turn, TurnError> {
        let role = self.role_of(index)?;
        self.turn_in(index, role, max_fired, budget, |_| ())
    }

    /// Takes the role of a shard. Mostly no other thread has it.
    #[inline]
    fn role_of(&self, index: usize) -> Result<Role<'_, T>, TurnError> {
        match self.ending.try_take_role(index) {
            Some(role) => Ok(role),
            None => yield_while(|| self.ending.take_role(index)).ok_or(TurnError::Stopped),
        }
    }

    /// See [`Engine::look_ahead`].
    fn next_turn(&self, index: usize) -> Result<Turn, TurnError> {
        let mut role = self.role_of(index)?;
        let (context, in_hand) = self.turn_context(index, &mut role);
        let Some(report) = context.look_ahead(in_hand) else {
            return Ok(Turn { fired: 0, more: true, next: Some(self.instant_now()) });
        };
        self.shards[index].doorbell().has_asked();
        let more = report.busy || report.next <= self.now();
        Ok(Turn { fired: 0, more, next: self.instant_of(report.next) })
    }

    /// The same in a role that the caller holds. Calls `begin` first.
    #[inline]
    fn turn_in(
        &self,
        index: usize,
        mut role: Role<'_, T>,
        max_fired: usize,
        budget: usize,
        begin: impl FnOnce(&TurnContext<'_, T>),
    ) -> Result<Turn, TurnError> {
        self.clock.look_again();
        let now = self.now();
        let shard = &self.shards[index];
        let doorbell = shard.doorbell();
        doorbell.retract();
        let report = work_for(self.party(), || {
            let (context, in_hand) = self.turn_context(index, &mut role);
            begin(&context);
            context.turn(context.lock(), in_hand, now, max_fired, budget)
        });
        let report = report.ok_or(TurnError::Stopped)?;
        if report.taken_over {
            // What the shard publishes is another thread's business.
            return Ok(Turn { fired: report.fired, more: true, next: self.instant_of(now) });
        }
        doorbell.publish(report.next);
        let more = report.busy || shard.has_notices();
        Ok(Turn { fired: report.fired, more, next: self.instant_of(report.next) })
    }
}
