//! Timers of a chosen shard.

use std::time::Duration;

use tickless::Engine;

/// Schedules `task` on this shard.
pub fn schedule_on(
    engine: &Engine,
    shard: usize,
    delay: Duration,
    task: impl FnOnce() + Send + 'static,
) {
    engine.bind_thread(shard).unwrap();
    engine.schedule_detached(delay, task).unwrap();
}
