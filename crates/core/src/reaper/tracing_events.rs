//! Events for the `tracing` facade; without that feature everything here is a no-op.
//!
//! Each kind of event has its own target, so that a filter can tell them apart: `tickless::batch`
//! (spans), `tickless::stuck`, `tickless::panic` and `tickless::runtime`. A target without a
//! subscriber costs the test of a cached flag.
//!
//! *Invariant*: a subscriber is foreign code and may panic. Its panics stay out of [`in_batch`],
//! which contains each call to it. The caller of the other functions contains these.
//!
//! *Tested by*: `tests/alone/tracing.rs`.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody is told"))]

use std::io;

#[cfg(feature = "tracing")]
use crate::dispatch::contained;

use super::StuckTask;

/// A value of the subscriber's, if making it did not panic. Its drop calls the subscriber.
#[cfg(feature = "tracing")]
struct Contained<V>(Option<V>);

/// Runs `f`, in which the handler takes a batch of `timers`, in a span. `f` runs whatever the
/// subscriber does, and may panic.
#[inline]
pub(super) fn in_batch<R>(engine: &str, shard: usize, timers: usize, f: impl FnOnce() -> R) -> R {
    #[cfg(feature = "tracing")]
    let span = Contained::new(|| {
        Some(tracing::trace_span!(
            target: "tickless::batch",
            "batch",
            engine,
            shard,
            timers,
        ))
    });
    #[cfg(feature = "tracing")]
    let _entered = Contained::new(|| span.0.as_ref().map(tracing::Span::enter));
    f()
}

/// Reports a task that is stuck.
pub(super) fn stuck(engine: &str, task: &StuckTask) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "tickless::stuck",
        engine,
        shard = task.shard,
        thread = &*task.thread,
        "task stuck",
    );
}

/// Reports a payload that panicked.
pub(super) fn panicked(engine: &str, shard: usize, message: Option<&str>) {
    #[cfg(feature = "tracing")]
    tracing::error!(
        target: "tickless::panic",
        engine,
        shard,
        panic = message,
        "task panicked",
    );
}

/// Reports that an engine on a runtime waits by the runtime's sleeps, because of `error`.
pub fn waits_by_sleep(engine: &str, error: &io::Error) {
    #[cfg(feature = "tracing")]
    contained(|| {
        tracing::warn!(
            target: "tickless::runtime",
            engine,
            error = error as &(dyn std::error::Error + 'static),
            "waits by the runtime's sleeps",
        );
    });
}

// === impl Contained ===

#[cfg(feature = "tracing")]
impl<V> Contained<V> {
    fn new(make: impl FnOnce() -> Option<V>) -> Contained<V> {
        let mut value = None;
        contained(|| value = make());
        Contained(value)
    }
}

/// Also while the thread unwinds from a task's panic: a second one that got out would abort.
#[cfg(feature = "tracing")]
impl<V> Drop for Contained<V> {
    fn drop(&mut self) {
        let value = self.0.take();
        contained(|| drop(value));
    }
}
