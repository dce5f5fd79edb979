//! What a builder is told about looking on: names, thresholds, and who is called.

use std::time::Duration;

use crate::dispatch::{SlowRule, SlowTask};
use crate::engine::Builder;
use crate::reaper::{Observation, TaskPanic};
use crate::sync::Arc;

// === impl Builder: who looks on ===

impl Builder {
    /// The engine's name in events and metrics. Default: that of its
    /// [threads](Builder::thread_name).
    ///
    /// Any text will do. Engines of one name become one in metrics, so give each its own.
    ///
    /// ```
    /// let engine = tickless::Engine::builder().name("session timeouts").build()?;
    /// # drop(engine);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.observation.name = name.into().into();
        self.is_named = true;
        self
    }

    /// From how long on a task is slow: it is counted in [`Stats::slow`](crate::Stats::slow) and,
    /// with the feature `tracing`, reported as a warning. Default: none is. Zero makes all slow.
    ///
    /// What is measured is the time that a payload keeps its shard's reaper, during which nothing
    /// else of that shard fires: from when the handler takes it until it takes the next, returns
    /// or panics, by the engine's clock. So a handler that passes payloads on to other threads is
    /// measured for the passing on, and one that takes a whole batch before it begins has the last
    /// payload answer for all.
    ///
    /// With a threshold the clock is read once more per payload; without one this costs nothing to
    /// speak of.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let builder = Engine::builder().manual_clock(&clock);
    /// let engine = builder.slow_threshold(Duration::from_millis(10)).build()?;
    /// engine.schedule_detached(Duration::ZERO, move || clock.advance(Duration::from_millis(12)))?;
    /// engine.schedule_detached(Duration::ZERO, || ())?;
    /// engine.advance(Duration::ZERO)?;
    /// assert_eq!(engine.stats().slow, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slow_threshold(self, threshold: Duration) -> Builder {
        self.on_slow_task(threshold, |_| ())
    }

    /// As [`slow_threshold`](Builder::slow_threshold), and calls `callback` for each slow task,
    /// when it is over. Of several calls of these two the last counts.
    ///
    /// The callback runs on the reaper's thread, so it should be short itself. The time that it
    /// takes is not counted as any task's. It may use the engine as tasks do, but must not own a
    /// clone of it, which would keep the engine alive. What it panics with is ignored.
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

    /// Calls `callback` for each payload that panics, with what it panicked with. Default: nobody
    /// is called; the panic is counted in [`Stats::panicked`](crate::Stats::panicked), the
    /// process's panic hook has said what it says, and with the feature `tracing` it is an event.
    ///
    /// A second panic while the first one unwinds, from the destructor of a value that the payload
    /// owned, reaches nobody: Rust aborts the process then, as it does everywhere.
    ///
    /// The callback runs where the panic was caught, on the reaper's thread, and must not own a
    /// clone of the engine; what it panics with in its turn is ignored. Payloads that panic when
    /// they are *dropped* after being handed over are reported as well.
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

    /// How far behind its own wheel a shard counts as *saturated*. Default 1 s; anything is
    /// allowed, and zero counts whoever is late at all.
    ///
    /// A shard becomes saturated when it hands over a batch from a bucket that should have opened
    /// more than this ago: tasks take longer than there is time, or the machine does not let the
    /// reaper run. It ends with the first turn that leaves nothing due, or when the engine stops.
    /// Deadlines that were past when they were scheduled do not count.
    /// [`Stats`](crate::Stats) has how often shards became saturated and how many are; with the
    /// feature `tracing` both ends are events, and nothing between them is.
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

    /// What the shards' observers are told.
    pub(in crate::engine) fn observation_named(&self) -> Observation {
        let mut observation = self.observation.clone();
        if !self.is_named {
            observation.name = self.thread_name.as_str().into();
        }
        observation
    }
}
