//! Slow tasks: how long a reaper spends on each payload, where somebody wants to know.
//!
//! A batch knows two boundaries that every handler passes: it takes a payload, and it takes the
//! next or returns. What lies between them is what the payload cost its shard, whatever the
//! handler does with it.
//!
//! *Owner*: the reaper, for the batch that it hands over.
//!
//! *Tested by*: `tests/slow_tasks.rs`.

use std::fmt;
use std::time::{Duration, Instant};

use crate::sync::Arc;
use crate::time::{Clock, Scale, Tick};

/// A payload that kept its reaper for longer than
/// [`Builder::slow_threshold`](crate::Builder::slow_threshold) allows.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowTask {
    /// The shard whose reaper it kept.
    pub shard: usize,
    /// When it was due, rounded up to the tick.
    pub deadline: Instant,
    /// How late it was already when the handler took it, by the engine's clock.
    pub lateness: Duration,
    /// How long it kept the reaper, by the engine's clock: from when the handler took it until
    /// it took the next, returned or panicked.
    pub took: Duration,
    /// From how long on a task counts as slow.
    pub threshold: Duration,
    /// How many payloads of the same batch had to wait for it.
    pub waiting: usize,
    /// It ended in a panic.
    pub panicked: bool,
}

/// Is told of slow tasks.
#[doc(hidden)]
pub type OnSlowTask = Arc<dyn Fn(&SlowTask) + Send + Sync>;

/// From when on a task is slow, and who is told.
#[doc(hidden)]
#[derive(Clone)]
pub struct SlowRule {
    /// From how long on.
    pub threshold: Duration,
    /// Is told. It does not panic.
    pub tell: OnSlowTask,
}

/// Times the payloads of one batch.
pub(crate) struct Stopwatch {
    rule: SlowRule,
    shard: usize,
    running: Option<Running>,
    /// Those that were slow, until somebody is told.
    untold: Vec<SlowTask>,
    slow: u64,
}

/// A payload that a handler has taken.
#[derive(Clone, Copy, Debug)]
struct Running {
    deadline: Tick,
    taken_ns: u64,
}

/// How a payload's time ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The deadline of the payload that is taken now.
    pub(crate) next: Option<Tick>,
    /// Payloads that were in the batch until now.
    pub(crate) waiting: usize,
    pub(crate) panicked: bool,
}

// === impl SlowRule ===

impl fmt::Debug for SlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowRule").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}

// === impl Stopwatch ===

impl Stopwatch {
    pub(crate) fn new(rule: &SlowRule, shard: usize) -> Stopwatch {
        Stopwatch { rule: rule.clone(), shard, running: None, untold: Vec::new(), slow: 0 }
    }

    /// The payload that was taken last is done with, and the next one's time begins. Whoever wants
    /// to know of slow ones is told here.
    pub(crate) fn sample(&mut self, clock: &Clock, scale: Scale, sample: Sample) {
        self.note(clock, scale, sample);
        self.tell(clock);
    }

    /// As `sample`, for one who holds a lock: nobody is told until [`tell`](Stopwatch::tell).
    pub(crate) fn note(&mut self, clock: &Clock, scale: Scale, sample: Sample) {
        let now_ns = clock.now_ns();
        if let Some(running) = self.running.take() {
            let took = Duration::from_nanos(now_ns.saturating_sub(running.taken_ns));
            if took >= self.rule.threshold {
                self.slow += 1;
                self.untold.push(self.describe(clock, scale, sample, running, took));
            }
        }
        self.running = sample.next.map(|deadline| Running { deadline, taken_ns: now_ns });
    }

    /// Tells of each slow task that was noted. The time that this takes is nobody's.
    pub(crate) fn tell(&mut self, clock: &Clock) {
        if self.untold.is_empty() {
            return;
        }
        let begin_ns = clock.now_ns();
        self.untold.drain(..).for_each(|slow| (self.rule.tell)(&slow));
        let told_ns = clock.now_ns().saturating_sub(begin_ns);
        if let Some(running) = &mut self.running {
            running.taken_ns = running.taken_ns.saturating_add(told_ns);
        }
    }

    /// How many were slow.
    pub(crate) fn slow(&self) -> u64 {
        self.slow
    }

    fn describe(
        &self,
        clock: &Clock,
        scale: Scale,
        sample: Sample,
        running: Running,
        took: Duration,
    ) -> SlowTask {
        let Running { deadline, taken_ns } = running;
        let due_ns = scale.start_ns(deadline).unwrap_or(taken_ns);
        SlowTask {
            shard: self.shard,
            deadline: super::batch::instant_of(clock, scale, deadline),
            lateness: Duration::from_nanos(taken_ns.saturating_sub(due_ns)),
            took,
            threshold: self.rule.threshold,
            waiting: sample.waiting,
            panicked: sample.panicked,
        }
    }
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopwatch")
            .field("rule", &self.rule)
            .field("slow", &self.slow)
            .finish_non_exhaustive()
    }
}
