//! Time that callers move by hand, together with the timers that become due on the way.
//!
//! The clock stops wherever a bucket opens, of whichever engine, and turns of all shards run there
//! until no work is left. So what is due fires in order, and tasks see the time of their deadline.
//!
//! *Owner*: the thread that moves the clock. If several do at the same time, the clock never goes
//! back, and each of them fires what is due by then.
//!
//! *Tested by*: `tests/suite/engine/virtual_time.rs`, `tests/oracles/engine.rs`.

use std::time::{Duration, Instant};

use crate::error::TurnError;
use crate::shard::Shard;
use crate::time::{Clock, Drivable, Driven, ManualClock, Tick, advance_to, saturating_ns};

use super::core::Core;
use super::{Engine, EngineRef};

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// Moves a manual clock forward by `by`, and fires all timers that become due on the way, in
    /// order. Returns how many fired.
    ///
    /// The clock stops at each tick at which a timer is due. So tasks see the time of their
    /// deadline, and timers that they schedule fire on the way too. (A task that reschedules itself
    /// with no delay at all keeps this from returning.)
    ///
    /// With a manual clock, time moves only in this, in
    /// [`advance_to_next`](Engine::advance_to_next) and in the methods of [`ManualClock`], and
    /// timers fire only where the caller runs turns: in the first two, in [`turn`](Engine::turn)
    /// and its like, and in [`drive`](Engine::drive). So the engine is deterministic. Of several
    /// engines with one clock, this fires the timers of this one alone: see
    /// [`ManualClock::advance_engines`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).build()?;
    /// engine.schedule_detached(Duration::from_secs(60), || println!("a minute later"))?;
    /// assert_eq!(engine.advance(Duration::from_secs(59))?, 0);
    /// assert_eq!(engine.advance(Duration::from_secs(1))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The clock is not manual, the call comes from one of the engine's tasks, the engine has
    /// stopped, or it belongs to the parent process. If the engine was stopped on the way,
    /// [`stats`](Engine::stats) tells how many timers had fired.
    pub fn advance(&self, by: Duration) -> Result<usize, TurnError> {
        self.core().advance(by)
    }

    /// Moves a manual clock forward to the time at which the next timer is due, and fires all that
    /// are due then. If some are due already, it fires those, and the clock stays. Returns the time
    /// that the clock shows, or `None` if no timer is pending that will ever be due; the clock
    /// stays then, too.
    ///
    /// So a loop of this runs a simulation from event to event:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Builder, ManualClock};
    ///
    /// let builder = Builder::new().manual_clock(&ManualClock::new()).shards(1);
    /// let engine = builder.build_each(|what: &str| println!("it {what}"))?;
    /// let start = engine.now();
    /// let minute = Duration::from_secs(60);
    /// engine.schedule_detached(minute, "arrives")?;
    /// let cancelled = engine.schedule(2 * minute, "turns back")?;
    /// engine.schedule_detached(60 * minute, "leaves")?;
    /// cancelled.cancel();
    /// assert_eq!(engine.advance_to_next()?, Some(start + minute));
    /// assert_eq!(engine.advance_to_next()?, Some(start + 60 * minute));
    /// assert_eq!(engine.advance_to_next()?, None);
    /// assert_eq!(engine.now(), start + 60 * minute);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Its cost grows with the number of timers that are due at about the same time as the next
    /// one. The timer of a heartbeat is due when it looks, which may be before the silence is over.
    ///
    /// # Errors
    /// As [`advance`](Engine::advance).
    pub fn advance_to_next(&self) -> Result<Option<Instant>, TurnError> {
        self.core().advance_to_next()
    }
}

impl EngineRef {
    /// As [`Engine::advance`].
    #[cfg(feature = "test-util")]
    pub(crate) fn advance(self, by: Duration) -> Result<usize, TurnError> {
        match self.core() {
            Some(core) => core.advance(by),
            None if self.is_inherited() => Err(TurnError::Forked),
            None => Err(TurnError::Stopped),
        }
    }
}

// === impl Core ===

impl<T: Send + 'static> Core<T> {
    /// See [`Engine::advance`].
    fn advance(&self, by: Duration) -> Result<usize, TurnError> {
        let clock = self.manual_clock()?;
        advance_to(clock, clock.elapsed_ns().saturating_add(saturating_ns(by)), &[self])
    }

    /// See [`Engine::advance_to_next`].
    fn advance_to_next(&self) -> Result<Option<Instant>, TurnError> {
        let clock = self.manual_clock()?;
        let mut fired = Drivable::settle(self)?;
        // Another thread may cancel a timer or move it after this has found it.
        while fired == 0 {
            let Some(next_ns) = self.earliest_ns()? else { return Ok(None) };
            fired = advance_to(clock, next_ns, &[self])?;
        }
        Ok(Some(self.instant_now()))
    }

    fn manual_clock(&self) -> Result<&ManualClock, TurnError> {
        let clock = self.clock.as_manual().ok_or(TurnError::NotManual)?;
        Core::may_turn(self)?;
        Ok(clock)
    }

    /// Returns when the next timer is due. `None`: none is pending that will ever be due.
    fn earliest_ns(&self) -> Result<Option<u64>, TurnError> {
        self.first_ns(|shard| {
            let owner = shard.owner().lock().expect("nothing panics under this lock");
            if owner.is_closed() { Err(TurnError::Stopped) } else { Ok(shard.earliest(&owner)) }
        })
    }

    /// Returns the earliest of the times that `of` returns for the shards.
    fn first_ns(
        &self,
        of: impl Fn(&Shard<T>) -> Result<Tick, TurnError>,
    ) -> Result<Option<u64>, TurnError> {
        let mut first = Tick::NEVER;
        for shard in &self.shards {
            first = first.min(of(shard)?);
        }
        Ok(self.scale.start_ns(first))
    }
}

impl<T: Send + 'static> Drivable for Core<T> {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn may_turn(&self) -> Result<(), TurnError> {
        Core::may_turn(self)
    }

    fn settle(&self) -> Result<usize, TurnError> {
        let mut all_fired = 0;
        loop {
            let mut again = false;
            for shard in 0..self.shards.len() {
                let turn = self.turn(shard, usize::MAX, usize::MAX)?;
                all_fired += turn.fired;
                again |= turn.more || turn.fired > 0;
            }
            if !again {
                return Ok(all_fired);
            }
        }
    }

    fn next_opening_ns(&self) -> Result<Option<u64>, TurnError> {
        self.first_ns(|shard| {
            let mut owner = shard.owner().lock().expect("nothing panics under this lock");
            if owner.is_closed() {
                return Err(TurnError::Stopped);
            }
            shard.read_notices(&mut owner, &self.shared);
            Ok(owner.next_opening())
        })
    }
}

// === impl Engine: driven together with others ===

impl<T: Send + 'static> Driven for Engine<T> {
    fn drivable(&self) -> &dyn Drivable {
        &**self.core()
    }
}
