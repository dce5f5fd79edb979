//! The observer of a shard: what is worth telling is counted here, or passed on.
//!
//! *Owner*: the shard's owner writes; anyone reads.
//!
//! *Invariant*: whatever is called here, a callback or a subscriber to events, no panic of theirs
//! gets any further.
//!
//! *Tested by*: `tests/slow_tasks.rs`, `tests/saturation.rs`, `tests/tracing.rs`.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::dispatch::{OnSlowTask, SlowRule, SlowTask, Stopwatch, contained};
use crate::sync::{Arc, Counter, Ordering};

use super::panics::{OnPanic, TaskPanic};
use super::{Latenesses, events};

/// The time since when a shard is saturated that is not.
const NEVER_NS: u64 = u64::MAX;

/// What the observers of an engine have in common.
#[derive(Clone)]
pub struct Observation {
    /// What the engine is called.
    pub name: Arc<str>,
    /// Which payloads are slow, and who is told.
    pub slow: Option<SlowRule>,
    /// Who is told of panics.
    pub on_panic: Option<OnPanic>,
    /// A shard that is this far behind is saturated.
    pub saturation: Duration,
}

/// Who looks on while a shard's reaper works.
pub struct Observer {
    lateness: Latenesses,
    shard: usize,
    observation: Observation,
    /// The rule of the observation, whose callback is wrapped up with the events.
    slow: Option<SlowRule>,
    saturated_since_ns: Counter,
}

// === impl Observation ===

impl Observation {
    /// How far behind a shard is saturated, unless said otherwise.
    pub const SATURATION: Duration = Duration::from_secs(1);

    /// Nobody is told anything.
    pub fn of(name: &str) -> Observation {
        Observation {
            name: name.into(),
            slow: None,
            on_panic: None,
            saturation: Observation::SATURATION,
        }
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("name", &self.name)
            .field("slow", &self.slow)
            .field("on_panic", &self.on_panic.is_some())
            .field("saturation", &self.saturation)
            .finish()
    }
}

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

    /// What the engine is called.
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
        // ORDER: Relaxed - one writer (the owner's exclusion); others want to know, no more.
        self.saturated_since_ns.load(Ordering::Relaxed) != NEVER_NS
    }

    /// The shard hands over at `now_ns` what its wheel had for `opened_ns`. Answers whether it
    /// is saturated from now on, and was not before.
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
        // ORDER: Relaxed - as in `is_saturated`. (A clock that shows its very end is never.)
        self.saturated_since_ns.store(now_ns.min(NEVER_NS - 1), Ordering::Relaxed);
        contained(|| events::saturated(self, behind, self.observation.saturation));
    }

    /// The shard has nothing left that is due, if it was saturated. Only its owner may call this.
    pub fn caught_up(&self, now_ns: u64) {
        // ORDER: Relaxed - as in `is_saturated`.
        let since_ns = self.saturated_since_ns.load(Ordering::Relaxed);
        if since_ns == NEVER_NS {
            return;
        }
        // ORDER: Relaxed - as in `is_saturated`.
        self.saturated_since_ns.store(NEVER_NS, Ordering::Relaxed);
        let lasted = Duration::from_nanos(now_ns.saturating_sub(since_ns));
        contained(|| events::caught_up(self, lasted));
    }

    /// A stopwatch for a batch, if somebody wants to know how long payloads take.
    #[inline]
    pub(super) fn stopwatch(&self) -> Option<Stopwatch> {
        self.slow.as_ref().map(|rule| Stopwatch::new(rule, self.shard))
    }

    /// A payload panicked, with this.
    #[cold]
    pub(super) fn panicked(&self, payload: &(dyn Any + Send)) {
        let panic = TaskPanic { shard: self.shard, payload };
        contained(|| events::panicked(self, &panic));
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

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("shard", &self.shard)
            .field("is_saturated", &self.is_saturated())
            .finish_non_exhaustive()
    }
}

/// A callback that comes after the event, and never panics.
fn wrapped(name: &Arc<str>, tell: &OnSlowTask) -> OnSlowTask {
    let (name, tell) = (name.clone(), tell.clone());
    Arc::new(move |slow: &SlowTask| {
        contained(|| events::slow(&name, slow));
        contained(|| tell(slow));
    })
}
