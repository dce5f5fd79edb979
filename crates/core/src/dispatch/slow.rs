//! Slow tasks: measures how long a reaper spends on each payload, if a threshold is set.
//!
//! Every handler passes two points for each payload: it takes it from the batch, and later it takes
//! the next one or returns. The time between them is the payload's cost to its shard, whatever the
//! handler does with it.
//!
//! *Owner*: the reaper, for the batch that it hands over.
//!
//! *Tested by*: `tests/races/engine/slow_tasks.rs`.

use std::time::{Duration, Instant};

use crate::sync::Arc;
use crate::time::{Clock, Scale, Tick};

use super::Line;

/// Describes a payload that occupied its reaper for at least the threshold of
/// [`Builder::on_slow_task`][at] or
/// [`Builder::slow_threshold`][by].
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, SlowTask};
///
/// let engine = Engine::builder()
///     .on_slow_task(Duration::from_millis(20), |slow: &SlowTask| {
///         eprintln!("{:?} on shard {}, {} waited", slow.took, slow.shard, slow.waiting);
///     })
///     .build()?;
/// # drop(engine);
/// # Ok::<(), tickless::BuildError>(())
/// ```
///
/// [at]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.on_slow_task
/// [by]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.slow_threshold
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowTask {
    /// The shard of the reaper.
    pub shard: usize,
    /// Its deadline, rounded up to the tick.
    pub deadline: Instant,
    /// How late it already was when the handler took it, by the engine's clock.
    pub lateness: Duration,
    /// How long it occupied the reaper, by the engine's clock: from when the handler took it until
    /// the handler took the next one, returned or panicked.
    pub took: Duration,
    /// The configured threshold: a payload that took at least this long is slow.
    pub threshold: Duration,
    /// The number of payloads of the same batch that waited for it.
    pub waiting: usize,
    /// Whether the handler panicked on it.
    pub panicked: bool,
}

/// A callback that reports slow tasks.
#[doc(hidden)]
pub type OnSlowTask = Arc<dyn Fn(&SlowTask) + Send + Sync>;

/// When a task counts as slow, and how it is reported.
#[doc(hidden)]
#[derive(Clone)]
pub struct SlowRule {
    /// A task that takes at least this long is slow.
    pub threshold: Duration,
    /// Called with each slow task. It does not panic.
    pub tell: OnSlowTask,
}

/// Times the payloads of one batch.
pub(crate) struct Stopwatch {
    rule: SlowRule,
    shard: usize,
    running: Option<Running>,
    /// Slow tasks that were not reported yet.
    untold: Vec<SlowTask>,
    slow: u64,
}

/// A payload that a handler has taken.
#[derive(Clone, Copy, Debug)]
struct Running {
    deadline: Tick,
    taken_ns: u64,
}

// === impl SlowRule ===

debug! { impl[] SlowRule[] { threshold } }

// === impl Stopwatch ===

impl Stopwatch {
    pub(crate) fn new(rule: &SlowRule, shard: usize) -> Stopwatch {
        Stopwatch { rule: rule.clone(), shard, running: None, untold: Vec::new(), slow: 0 }
    }

    /// Starts the time of a payload that is taken.
    pub(crate) fn begin(&mut self, deadline: Tick, taken_ns: u64) {
        self.running = Some(Running { deadline, taken_ns });
    }

    /// Ends the time of the payload that was taken last, behind which so many wait in the batch,
    /// and returns when that was. One that was slow is kept until [`tell`](Stopwatch::tell) reports
    /// it: a caller may hold a lock.
    pub(crate) fn end(
        &mut self,
        clock: &Clock,
        scale: Scale,
        waiting: usize,
        panicked: bool,
    ) -> u64 {
        let now_ns = clock.now_ns();
        if let Some(Running { deadline, taken_ns }) = self.running.take() {
            let took = Duration::from_nanos(now_ns.saturating_sub(taken_ns));
            if took >= self.rule.threshold {
                self.slow += 1;
                let due_ns = scale.start_ns(deadline).unwrap_or(taken_ns);
                self.untold.push(SlowTask {
                    shard: self.shard,
                    deadline: super::batch::instant_of(clock, scale, deadline),
                    lateness: Duration::from_nanos(taken_ns.saturating_sub(due_ns)),
                    took,
                    threshold: self.rule.threshold,
                    waiting,
                    panicked,
                });
            }
        }
        now_ns
    }

    /// Reports each slow task that was noted, and returns how long that took, which is not counted
    /// as a payload's. Meanwhile a handler that waits for others is not patient: the report is the
    /// user's code.
    pub(crate) fn tell<T>(&mut self, clock: &Clock, line: &Line<T>) -> u64 {
        if self.untold.is_empty() {
            return 0;
        }
        let begin_ns = clock.now_ns();
        let was_patient = line.end_patience(begin_ns);
        self.untold.drain(..).for_each(|slow| (self.rule.tell)(&slow));
        if was_patient {
            line.set_patient(None);
        }
        let told_ns = clock.now_ns().saturating_sub(begin_ns);
        if let Some(running) = &mut self.running {
            running.taken_ns = running.taken_ns.saturating_add(told_ns);
        }
        told_ns
    }

    /// The number of slow tasks.
    pub(crate) fn slow(&self) -> u64 {
        self.slow
    }
}

debug! { impl[] Stopwatch[] { rule, slow } }
