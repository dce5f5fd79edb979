//! What the engine for closures leaves to the one for any payload, which it is made of.

use std::time::{Duration, Instant};

use crate::dispatch::Task;
use crate::error::{StopError, TurnError};

use super::{Engine, Snapshot, Stats, Turn};

// === impl Engine: as any engine ===

impl Engine {
    /// Stops the engine and returns the tasks that never ran: [`TypedEngine::stop`].
    ///
    /// # Errors
    /// The call comes from one of the engine's own tasks.
    pub fn stop(&self) -> Result<Vec<Task>, StopError> {
        self.as_typed().stop()
    }

    /// How many timers are pending: [`TypedEngine::len`].
    pub fn len(&self) -> usize {
        self.as_typed().len()
    }

    /// Whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.as_typed().is_empty()
    }

    /// The engine's time.
    pub fn now(&self) -> Instant {
        self.as_typed().now()
    }

    /// How many shards the engine has.
    pub fn shards(&self) -> usize {
        self.as_typed().shards()
    }

    /// Binds the calling thread to a shard: [`TypedEngine::bind_thread`].
    ///
    /// # Panics
    /// There is no such shard.
    pub fn bind_thread(&self, shard: usize) {
        self.as_typed().bind_thread(shard);
    }

    /// What the engine has counted so far: [`TypedEngine::stats`].
    pub fn stats(&self) -> Stats {
        self.as_typed().stats()
    }

    /// What is pending: [`TypedEngine::snapshot`].
    pub fn snapshot(&self) -> Snapshot {
        self.as_typed().snapshot()
    }

    /// Runs one turn of a shard: [`TypedEngine::turn`].
    ///
    /// # Errors
    /// As [`TypedEngine::turn`].
    pub fn turn(&self, shard: usize) -> Result<Turn, TurnError> {
        self.as_typed().turn(shard)
    }

    /// Runs one turn that fires at most `max_fired` timers: [`TypedEngine::turn_at_most`].
    ///
    /// # Errors
    /// As [`TypedEngine::turn`].
    pub fn turn_at_most(&self, shard: usize, max_fired: usize) -> Result<Turn, TurnError> {
        self.as_typed().turn_at_most(shard, max_fired)
    }

    /// Moves a manual clock on and fires what becomes due: [`TypedEngine::advance`].
    ///
    /// # Errors
    /// As [`TypedEngine::advance`].
    pub fn advance(&self, by: Duration) -> Result<usize, TurnError> {
        self.as_typed().advance(by)
    }
}
