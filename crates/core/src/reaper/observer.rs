//! The observer of a shard: it counts what happens there, and tells callbacks and subscribers.
//!
//! *Owner*: the shard's owner writes; anyone reads.
//!
//! *Invariant*: no panic of a callback or of a subscriber to events that is called here gets any
//! further.
//!
//! *Tested by*: `tests/races/engine/slow_tasks.rs`, `tests/suite/engine/saturation.rs`,
//! `tests/alone/tracing.rs`, `tests/races/engine/panics.rs`, `tests/races/engine/faults.rs`.

use std::any::Any;
use std::time::Duration;

use crate::dispatch::{OnSlowTask, SlowRule, SlowTask, Stopwatch, contained};
use crate::sync::{Arc, Counter, Ordering};

use super::{Latenesses, NEVER_NS, OnStuck, StuckTask, tracing_events};

/// The settings that the observers of an engine share.
#[derive(Clone)]
pub struct Observation {
    /// The engine's name.
    pub name: Arc<str>,
    /// Which payloads are slow, and the callback for them.
    pub slow: Option<SlowRule>,
    /// The callback for panics.
    pub on_panic: Option<OnPanic>,
    /// The callback for tasks that are stuck.
    pub on_stuck: Option<OnStuck>,
    /// A shard that is this far behind is saturated.
    pub saturation: Duration,
}

/// Observes the work of a shard's reaper.
pub struct Observer {
    lateness: Latenesses,
    shard: usize,
    observation: Observation,
    /// The rule of the observation, with a callback that also emits the event.
    slow: Option<SlowRule>,
    saturated_since_ns: Counter,
}

/// The panic of a payload, as passed to the callback of
/// [`Builder::on_panic`][on].
///
/// ```
/// use tickless::{Engine, TaskPanic};
///
/// let report = |panic: &TaskPanic<'_>| {
///     eprintln!("shard {}: {}", panic.shard, panic.message().unwrap_or("no message"));
/// };
/// let engine = Engine::builder().on_panic(report).build()?;
/// # drop(engine);
/// # Ok::<(), tickless::BuildError>(())
/// ```
///
/// [on]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.on_panic
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct TaskPanic<'a> {
    /// The shard whose reaper caught it.
    pub shard: usize,
    /// The value of the panic, as [`std::panic::catch_unwind`] returns it.
    pub payload: &'a (dyn Any + Send),
}

/// A callback for panics.
pub type OnPanic = Arc<dyn Fn(&TaskPanic<'_>) + Send + Sync>;

// === impl Observation ===

impl Observation {
    /// The default of [`Observation::saturation`].
    pub const SATURATION: Duration = Duration::from_secs(1);

    /// An observation without callbacks.
    pub fn of(name: &str) -> Observation {
        Observation {
            name: name.into(),
            slow: None,
            on_panic: None,
            on_stuck: None,
            saturation: Observation::SATURATION,
        }
    }
}

debug! { impl[] Observation[] {
    name,
    slow,
    on_panic = |this| this.on_panic.is_some(),
    on_stuck = |this| this.on_stuck.is_some(),
    saturation,
} }

// === impl Observer ===

impl Observer {
    /// The observer of shard number `shard`.
    pub fn new(shard: usize, observation: &Observation) -> Observer {
        let slow = observation.slow.as_ref().map(|rule| SlowRule {
            threshold: rule.threshold,
            tell: wrapped(&observation.name, &rule.tell),
        });
        Observer {
            lateness: Latenesses::new(),
            shard,
            observation: observation.clone(),
            slow,
            saturated_since_ns: Counter::new(NEVER_NS),
        }
    }

    /// How late payloads were handed over.
    pub fn lateness(&self) -> &Latenesses {
        &self.lateness
    }

    /// The engine's name.
    pub fn name(&self) -> &Arc<str> {
        &self.observation.name
    }

    /// The shard's number.
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Whether the shard is saturated.
    #[inline]
    pub fn is_saturated(&self) -> bool {
        // ORDER: Relaxed - one writer (the owner's exclusion); readers want the value only.
        self.saturated_since_ns.load(Ordering::Relaxed) != NEVER_NS
    }

    /// Notes that the shard hands over, at `now_ns`, payloads whose bucket was due to open at
    /// `opened_ns`. Returns `true` if the shard is saturated from now on, and was not before.
    pub(super) fn hands_over(&self, now_ns: u64, opened_ns: u64) -> bool {
        let behind = Duration::from_nanos(now_ns.saturating_sub(opened_ns));
        let begins = behind > self.observation.saturation && !self.is_saturated();
        if begins {
            self.becomes_saturated(now_ns, behind);
        }
        begins
    }

    #[cold]
    fn becomes_saturated(&self, now_ns: u64, behind: Duration) {
        // ORDER: Relaxed - as in `is_saturated`. (`NEVER_NS` itself means "not saturated".)
        self.saturated_since_ns.store(now_ns.min(NEVER_NS - 1), Ordering::Relaxed);
        contained(|| tracing_events::saturated(self, behind, self.observation.saturation));
    }

    /// Notes that the shard has no due payload left. Does nothing if it was not saturated. Only the
    /// shard's owner may call this.
    pub fn caught_up(&self, now_ns: u64) {
        // ORDER: Relaxed - as in `is_saturated`.
        let since_ns = self.saturated_since_ns.load(Ordering::Relaxed);
        if since_ns == NEVER_NS {
            return;
        }
        // ORDER: Relaxed - as in `is_saturated`.
        self.saturated_since_ns.store(NEVER_NS, Ordering::Relaxed);
        let lasted = Duration::from_nanos(now_ns.saturating_sub(since_ns));
        contained(|| tracing_events::caught_up(self, lasted));
    }

    /// A stopwatch for a batch, if there is a rule for slow payloads.
    #[inline]
    pub(super) fn stopwatch(&self) -> Option<Stopwatch> {
        self.slow.as_ref().map(|rule| Stopwatch::new(rule, self.shard))
    }

    /// Tells that a task of the shard is stuck.
    pub fn stuck(&self, task: &StuckTask) {
        contained(|| tracing_events::stuck(self, task));
        if let Some(tell) = &self.observation.on_stuck {
            contained(|| tell(task));
        }
    }

    /// Notes that a payload panicked with the value `payload`.
    #[cold]
    pub(super) fn panicked(&self, payload: &(dyn Any + Send)) {
        let panic = TaskPanic { shard: self.shard, payload };
        contained(|| tracing_events::panicked(self, &panic));
        if let Some(tell) = &self.observation.on_panic {
            contained(|| tell(&panic));
        }
    }
}

impl Default for Observer {
    fn default() -> Observer {
        Observer::new(0, &Observation::of(""))
    }
}

debug! { impl[] Observer[] {
    shard = |this| this.shard,
    is_saturated = |this| this.is_saturated(),
} }

/// Wraps a callback: the event comes first, and no panic gets out.
fn wrapped(name: &Arc<str>, tell: &OnSlowTask) -> OnSlowTask {
    let (name, tell) = (name.clone(), tell.clone());
    Arc::new(move |slow: &SlowTask| {
        contained(|| tracing_events::slow(&name, slow));
        contained(|| tell(slow));
    })
}

// === impl TaskPanic ===

impl<'a> TaskPanic<'a> {
    /// The message of the panic, or `None` if its value is not a string.
    pub fn message(&self) -> Option<&'a str> {
        let text = self.payload.downcast_ref::<&'static str>().copied();
        text.or_else(|| self.payload.downcast_ref::<String>().map(String::as_str))
    }
}

debug! { impl[] TaskPanic['_] { shard = |this| this.shard, message = |this| this.message() } }
