//! Events for the `tracing` facade; without that feature everything here is a no-op.
//!
//! Each kind of event has its own target, so that a filter can tell them apart: `tickless::batch`
//! (spans), `tickless::slow`, `tickless::stuck`, `tickless::panic` and `tickless::saturation`. A
//! target without a subscriber costs the test of a cached flag.
//!
//! *Tested by*: `tests/tracing.rs`.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody is told"))]

use std::time::Duration;

use crate::dispatch::SlowTask;

use super::panics::TaskPanic;
use super::{Observer, StuckTask};

/// Runs `f`, in which the handler takes a batch of `timers`, in a span.
#[inline]
pub(super) fn in_batch<R>(observer: &Observer, timers: usize, f: impl FnOnce() -> R) -> R {
    #[cfg(feature = "tracing")]
    let _span = tracing::trace_span!(
        target: "tickless::batch",
        "batch",
        engine = &**observer.name(),
        shard = observer.shard(),
        timers,
    )
    .entered();
    f()
}

/// Reports a payload that was slow.
pub(super) fn slow(engine: &str, slow: &SlowTask) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "tickless::slow",
        engine,
        shard = slow.shard,
        took_seconds = slow.took.as_secs_f64(),
        threshold_seconds = slow.threshold.as_secs_f64(),
        lateness_seconds = slow.lateness.as_secs_f64(),
        waiting = slow.waiting,
        panicked = slow.panicked,
        "slow task",
    );
}

/// Reports a task that is stuck.
pub(super) fn stuck(observer: &Observer, task: &StuckTask) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "tickless::stuck",
        engine = &**observer.name(),
        shard = task.shard,
        thread = &*task.thread,
        "task stuck",
    );
}

/// Reports a payload that panicked.
pub(super) fn panicked(observer: &Observer, panic: &TaskPanic<'_>) {
    #[cfg(feature = "tracing")]
    tracing::error!(
        target: "tickless::panic",
        engine = &**observer.name(),
        shard = panic.shard,
        panic = panic.message(),
        "task panicked",
    );
}

/// Reports that a shard has fallen behind.
pub(super) fn saturated(observer: &Observer, behind: Duration, limit: Duration) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "tickless::saturation",
        engine = &**observer.name(),
        shard = observer.shard(),
        behind_seconds = behind.as_secs_f64(),
        limit_seconds = limit.as_secs_f64(),
        "shard saturated",
    );
}

/// Reports that a shard that had fallen behind has nothing left to do.
pub(super) fn caught_up(observer: &Observer, lasted: Duration) {
    #[cfg(feature = "tracing")]
    tracing::info!(
        target: "tickless::saturation",
        engine = &**observer.name(),
        shard = observer.shard(),
        lasted_seconds = lasted.as_secs_f64(),
        "shard caught up",
    );
}
