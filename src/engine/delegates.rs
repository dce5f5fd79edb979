//! What the engine for closures leaves to the one for any payload, which it is made of.

use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::error::{BindError, StopError, TurnError};

use super::{Engine, Snapshot, Stats, Stopped, Turn};

// === impl Engine: as any engine ===

impl Engine {
    /// Stops the engine and returns the tasks that never ran:
    /// [`TypedEngine::stop`](crate::TypedEngine::stop).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// engine.schedule_detached(Duration::from_secs(60), || println!("sooner than expected"))?;
    /// for task in engine.stop()? {
    ///     task.run();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The call comes from one of the engine's own tasks.
    pub fn stop(&self) -> Result<Vec<Task>, StopError> {
        self.as_typed().stop()
    }

    /// As [`stop`](Engine::stop), with a limit for how long it waits for running tasks:
    /// [`TypedEngine::stop_within`](crate::TypedEngine::stop_within).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let stopped = engine.stop_within(Duration::from_secs(5))?;
    /// assert_eq!(stopped.running, 0, "no task is stuck");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedEngine::stop`](crate::TypedEngine::stop).
    pub fn stop_within(&self, limit: Duration) -> Result<Stopped<Task>, StopError> {
        self.as_typed().stop_within(limit)
    }

    /// Whether somebody has stopped the engine:
    /// [`TypedEngine::is_stopped`](crate::TypedEngine::is_stopped).
    ///
    /// ```
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// engine.stop()?;
    /// assert!(engine.is_stopped());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_stopped(&self) -> bool {
        self.as_typed().is_stopped()
    }

    /// How many timers are pending: [`TypedEngine::len`](crate::TypedEngine::len).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let timeout = engine.schedule(Duration::from_secs(60), || println!("due"))?;
    /// assert_eq!(engine.len(), 1);
    /// timeout.cancel();
    /// assert_eq!(engine.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.as_typed().len()
    }

    /// Whether no timer is pending: [`TypedEngine::is_empty`](crate::TypedEngine::is_empty).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// assert!(engine.is_empty());
    /// engine.schedule_detached(Duration::from_secs(60), || println!("due"))?;
    /// assert!(!engine.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.as_typed().is_empty()
    }

    /// The engine's time: [`TypedEngine::now`](crate::TypedEngine::now).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let deadline = engine.now() + Duration::from_secs(60);
    /// engine.schedule_at(deadline, || println!("a minute later"))?.cancel();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn now(&self) -> Instant {
        self.as_typed().now()
    }

    /// How many shards the engine has: [`TypedEngine::shards`](crate::TypedEngine::shards).
    ///
    /// ```
    /// # use tickless::Engine;
    /// let engine = Engine::builder().shards(3).build()?;
    /// assert_eq!(engine.shards(), 3);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn shards(&self) -> usize {
        self.as_typed().shards()
    }

    /// Binds the calling thread to a shard:
    /// [`TypedEngine::bind_thread`](crate::TypedEngine::bind_thread).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Driver, Engine};
    /// let engine = Engine::builder().driver(Driver::Caller).shards(2).build()?;
    /// engine.bind_thread(1)?;
    /// engine.schedule_detached(Duration::from_secs(60), || println!("due"))?;
    /// assert!(engine.snapshot().iter().all(|timer| timer.shard == 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedEngine::bind_thread`](crate::TypedEngine::bind_thread).
    pub fn bind_thread(&self, shard: usize) -> Result<(), BindError> {
        self.as_typed().bind_thread(shard)
    }

    /// What the engine has counted so far: [`TypedEngine::stats`](crate::TypedEngine::stats).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// engine.schedule(Duration::from_secs(60), || println!("due"))?.cancel();
    /// let stats = engine.stats();
    /// assert_eq!((stats.scheduled, stats.cancelled, stats.pending), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.as_typed().stats()
    }

    /// What is pending: [`TypedEngine::snapshot`](crate::TypedEngine::snapshot).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let timeout = engine.schedule(Duration::from_secs(60), || println!("due"))?;
    /// let first = engine.snapshot().iter().filter_map(|timer| timer.deadline).min();
    /// assert_eq!(first, timeout.deadline());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.as_typed().snapshot()
    }

    /// Runs one turn of a shard: [`TypedEngine::turn`](crate::TypedEngine::turn).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
    /// engine.schedule_detached(Duration::from_secs(1), || println!("due"))?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(engine.turn(0)?.fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedEngine::turn`](crate::TypedEngine::turn).
    pub fn turn(&self, shard: usize) -> Result<Turn, TurnError> {
        self.as_typed().turn(shard)
    }

    /// Runs one turn that fires at most `max_fired` timers:
    /// [`TypedEngine::turn_at_most`](crate::TypedEngine::turn_at_most).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
    /// for n in 0..5 {
    ///     engine.schedule_detached(Duration::from_secs(1), move || println!("{n}"))?;
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let turn = engine.turn_at_most(0, 3)?;
    /// assert_eq!((turn.fired, turn.more), (3, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedEngine::turn`](crate::TypedEngine::turn).
    pub fn turn_at_most(&self, shard: usize, max_fired: usize) -> Result<Turn, TurnError> {
        self.as_typed().turn_at_most(shard, max_fired)
    }

    /// Moves a manual clock on and fires what becomes due:
    /// [`TypedEngine::advance`](crate::TypedEngine::advance).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// engine.schedule_detached(Duration::from_secs(60), || println!("a minute later"))?;
    /// assert_eq!(engine.advance(Duration::from_secs(3600))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TypedEngine::advance`](crate::TypedEngine::advance).
    pub fn advance(&self, by: Duration) -> Result<usize, TurnError> {
        self.as_typed().advance(by)
    }
}
