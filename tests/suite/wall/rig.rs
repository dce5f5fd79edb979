//! Wall-clock timers whose clock, and whose engine, are moved by hand.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tickless::wall::{WallTimer, WallTimers};
use tickless::{Engine, ManualClock};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Nothing ran.
pub(crate) const NOTHING: [u32; 0] = [];

pub(crate) type Log = Arc<Mutex<Vec<u32>>>;

/// An engine and a wall clock that are moved by hand, and what ran.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) timers: WallTimers,
    pub(crate) log: Log,
    pub(crate) noon: SystemTime,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::on(Engine::builder().manual_clock(&ManualClock::new()).shards(1).build().unwrap())
    }

    pub(crate) fn on(engine: Engine) -> Rig {
        let noon = SystemTime::UNIX_EPOCH + 12 * HOUR;
        let timers = WallTimers::by_hand(&engine, noon);
        Rig { engine, timers, log: Log::default(), noon }
    }

    /// Logs `what` at that time after noon.
    pub(crate) fn at(&self, after: Duration, what: u32) -> WallTimer {
        let log = self.log.clone();
        self.timers.schedule(self.noon + after, move || log.lock().unwrap().push(what)).unwrap()
    }

    /// Logs the minutes after noon at each full `step`.
    pub(crate) fn every(&self, step: Duration) -> WallTimer {
        let (log, noon) = (self.log.clone(), self.noon);
        let task = move |due: SystemTime| {
            let minutes = due.duration_since(noon).unwrap().as_secs() / 60;
            log.lock().unwrap().push(minutes as u32);
        };
        self.timers.repeat(next_after(noon, step), task).unwrap()
    }

    /// Sets the clock, runs what is due, and returns it.
    pub(crate) fn set(&self, after: Duration) -> Vec<u32> {
        self.timers.set_now(self.noon + after);
        self.run()
    }

    pub(crate) fn run(&self) -> Vec<u32> {
        self.engine.advance(Duration::ZERO).unwrap();
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

/// The next multiple of `step` after `noon`, strictly after a time.
pub(crate) fn next_after(
    noon: SystemTime,
    step: Duration,
) -> impl FnMut(SystemTime) -> Option<SystemTime> + Send {
    move |after| {
        let since = after.duration_since(noon).unwrap_or_default();
        Some(noon + step * (since.as_nanos() / step.as_nanos() + 1) as u32)
    }
}
