//! A builder's settings for observability: names, thresholds and callbacks.

use std::time::Duration;

use crate::dispatch::{SlowRule, SlowTask};
use crate::engine::Builder;
use crate::reaper::{Observation, TaskPanic};
use crate::sync::Arc;

// === impl Builder: observability ===

impl Builder {
    /// Sets the engine's name in events and metrics. Default: the name of its
    /// [threads](Builder::thread_name).
    ///
    /// Any text will do. Metrics of engines with the same name become one, so give each engine its
    /// own.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.observation.name = name.into().into();
        self.is_named = true;
        self
    }

    /// Sets how long a task has to take to count as slow. A slow task is counted in
    /// [`Stats::slow`](crate::Stats::slow) and, with the feature `tracing`, reported as a warning.
    /// Default: no task is slow. With zero, all tasks are.
    ///
    /// The time of a task is the time that its payload keeps the shard's reaper, during which
    /// nothing else of that shard fires: from when the handler takes the payload until it takes the
    /// next, returns or panics, by the engine's clock. If a handler passes payloads on to other
    /// threads, only the passing on is measured. If a handler takes a whole batch before it begins,
    /// the last payload is charged for all.
    ///
    /// With a threshold, the clock is read once more per payload. Without one, the cost is
    /// negligible.
    pub fn slow_threshold(self, threshold: Duration) -> Builder {
        self.on_slow_task(threshold, |_| ())
    }

    /// As [`slow_threshold`](Builder::slow_threshold), and calls `callback` for each slow task when
    /// it is over. If these two are called several times, the last call counts.
    ///
    /// The callback runs on the reaper's thread, so it should be short itself. Its time is not
    /// counted as any task's. It may use the engine as tasks do, but must not own a clone of it,
    /// which would keep the engine alive. A panic in it is ignored.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder()
    ///     .manual_clock(&clock)
    ///     .on_slow_task(Duration::from_millis(10), move |slow| sender.send(slow.took).unwrap())
    ///     .build()?;
    /// engine.schedule_detached(Duration::ZERO, move || clock.advance(Duration::from_millis(12)))?;
    /// engine.advance(Duration::ZERO)?;
    /// assert_eq!(receiver.try_recv(), Ok(Duration::from_millis(12)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_slow_task(
        mut self,
        threshold: Duration,
        callback: impl Fn(&SlowTask) + Send + Sync + 'static,
    ) -> Builder {
        self.observation.slow = Some(SlowRule { threshold, tell: Arc::new(callback) });
        self
    }

    /// Calls `callback` for each payload that panics, with the value that it panicked with.
    /// Default: no callback. In any case the panic is counted in
    /// [`Stats::panicked`](crate::Stats::panicked), the process's panic hook has reported it, and
    /// with the feature `tracing` it is an event.
    ///
    /// A second panic while the first one unwinds, from the destructor of a value that the payload
    /// owned, is not reported: Rust then aborts the process, as it does everywhere.
    ///
    /// The callback runs where the panic was caught, on the reaper's thread, and must not own a
    /// clone of the engine. A panic in the callback is ignored. Payloads that panic when they are
    /// *dropped* after being handed over are reported as well.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let engine = Engine::builder()
    ///     .manual_clock(&ManualClock::new())
    ///     .on_panic(move |panic| sender.send(panic.shard).unwrap())
    ///     .build()?;
    /// engine.schedule_detached(Duration::ZERO, || panic!("out of tea"))?;
    /// engine.advance(Duration::ZERO)?;
    /// assert!(receiver.try_recv().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_panic(
        mut self,
        callback: impl Fn(&TaskPanic<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.observation.on_panic = Some(Arc::new(callback));
        self
    }

    /// Sets how far behind its own wheel a shard counts as *saturated*. Default: 1 s. Any value is
    /// allowed; with zero, a shard that is late at all counts.
    ///
    /// A shard becomes saturated when it hands over a batch from a bucket that should have opened
    /// more than this ago: its tasks take longer than there is time, or the machine does not let
    /// the reaper run. It stops being saturated with the first turn that leaves nothing due, or
    /// when the engine stops. Deadlines that had passed when they were scheduled do not count.
    /// [`Stats`](crate::Stats) has how often shards became saturated and how many are saturated
    /// now. With the feature `tracing`, the beginning and the end are events, and nothing between
    /// them is.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let builder = Engine::builder().shards(1).manual_clock(&clock);
    /// let engine = builder.saturation(Duration::from_millis(100)).build()?;
    /// engine.schedule_detached(Duration::from_secs(1), || ())?;
    /// clock.advance(Duration::from_secs(2));
    /// engine.turn(0)?;
    /// let stats = engine.stats();
    /// assert_eq!((stats.saturations, stats.saturated), (1, 0), "it was, and has caught up");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn saturation(mut self, behind: Duration) -> Builder {
        self.observation.saturation = behind;
        self
    }

    /// The settings for the shards' observers, with the engine's name.
    pub(in crate::engine) fn observation_named(&self) -> Observation {
        let mut observation = self.observation.clone();
        if !self.is_named {
            observation.name = self.thread_name.as_str().into();
        }
        observation
    }
}
