//! The observer of a shard: it counts what happens there, and tells callbacks and subscribers.
//!
//! *Owner*: the shard's owner writes; anyone reads.
//!
//! *Invariant*: no panic of a callback or of a subscriber to events that is called here gets any
//! further.
//!
//! *Tested by*: `tests/alone/tracing.rs`, `tests/races/engine/panics.rs`,
//! `tests/races/engine/faults.rs`.

use std::any::Any;

use crate::dispatch::contained;
use crate::sync::Arc;

use super::{Latenesses, OnStuck, StuckTask, tracing_events};

/// The settings that the observers of an engine share.
#[derive(Clone)]
pub struct Observation {
    /// The engine's name.
    pub name: Arc<str>,
    /// The callback for panics.
    pub on_panic: Option<OnPanic>,
    /// The callback for tasks that are stuck.
    pub on_stuck: Option<OnStuck>,
}

/// Observes the work of a shard's reaper.
pub struct Observer {
    lateness: Latenesses,
    shard: usize,
    observation: Observation,
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
    /// An observation without callbacks.
    pub fn of(name: &str) -> Observation {
        Observation { name: name.into(), on_panic: None, on_stuck: None }
    }
}

debug! { impl[] Observation[] {
    name,
    on_panic = |this| this.on_panic.is_some(),
    on_stuck = |this| this.on_stuck.is_some(),
} }

// === impl Observer ===

impl Observer {
    /// The observer of shard number `shard`.
    pub fn new(shard: usize, observation: &Observation) -> Observer {
        Observer { lateness: Latenesses::new(), shard, observation: observation.clone() }
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

    /// Tells that a task of the shard is stuck.
    pub fn stuck(&self, task: &StuckTask) {
        contained(|| tracing_events::stuck(self.name(), task));
        if let Some(report) = &self.observation.on_stuck {
            contained(|| report(task));
        }
    }

    /// Notes that a payload panicked with the value `payload`.
    #[cold]
    pub(super) fn panicked(&self, payload: &(dyn Any + Send)) {
        let panic = TaskPanic { shard: self.shard, payload };
        contained(|| tracing_events::panicked(self.name(), panic.shard, panic.message()));
        if let Some(report) = &self.observation.on_panic {
            contained(|| report(&panic));
        }
    }
}

impl Default for Observer {
    fn default() -> Observer {
        Observer::new(0, &Observation::of(""))
    }
}

debug! { impl[] Observer[] { shard = |this| this.shard } }

// === impl TaskPanic ===

impl<'a> TaskPanic<'a> {
    /// The message of the panic, or `None` if its value is not a string.
    pub fn message(&self) -> Option<&'a str> {
        let text = self.payload.downcast_ref::<&'static str>().copied();
        text.or_else(|| self.payload.downcast_ref::<String>().map(String::as_str))
    }
}

debug! { impl[] TaskPanic['_] { shard = |this| this.shard, message = |this| this.message() } }
