//! Events for the `tracing` facade; without that feature everything here is a no-op.
//!
//! Each kind has its own target, so that a filter can tell them apart:
//!
//! | target | level | what |
//! |---|---|---|
//! | `tickless_durable::handler` | debug | a span around each attempt |
//! | `tickless_durable::attempt` | warn | an attempt has failed |
//! | `tickless_durable::dead` | error | a timer is a dead letter now |
//! | `tickless_durable::failure` | error | a store has failed, and its service with it |
//! | `tickless_durable::cluster` | info | a shard is opened or closed |
//! | the same | warn | what an instance fails at |
//!
//! A subscriber is foreign code: no lock is held here. Its panics end in events, and in a span they
//! are the handler's.
//!
//! *Tested by*: `tests/seen.rs`.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody is told"))]

use crate::error::StoreError;
#[cfg(feature = "tracing")]
use crate::foreign;
use crate::record::{DeadLetter, Record};

#[cfg(feature = "tracing")]
macro_rules! tell {
    ($level:ident, $($rest:tt)*) => {
        drop(foreign::call(|| tracing::$level!($($rest)*)))
    };
}

/// The span of an attempt.
#[cfg(feature = "tracing")]
pub(crate) fn attempt(service: &str, record: &Record) -> tracing::Span {
    tracing::debug_span!(
        target: "tickless_durable::handler",
        "handler",
        service,
        id = %record.id(),
        attempt = record.attempt,
    )
}

/// An attempt has failed.
pub(crate) fn failed(service: &str, record: &Record, error: &str) {
    #[cfg(feature = "tracing")]
    tell!(
        warn,
        target: "tickless_durable::attempt",
        service,
        id = %record.id(),
        attempt = record.attempt,
        error,
        "attempt failed",
    );
}

/// A timer is a dead letter now, durably.
pub(crate) fn died(service: &str, letter: &DeadLetter) {
    #[cfg(feature = "tracing")]
    tell!(
        error,
        target: "tickless_durable::dead",
        service,
        id = %letter.id(),
        attempt = letter.record.attempt,
        error = &*letter.error,
        "dead letter",
    );
}

/// A store has failed.
pub(crate) fn failure(service: &str, error: &StoreError) {
    #[cfg(feature = "tracing")]
    tell!(error, target: "tickless_durable::failure", service, %error, "store failed");
}

/// An instance of a cluster has opened or closed a shard.
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) fn shard(instance: u64, shard: u32, fence: i64, what: &str) {
    #[cfg(feature = "tracing")]
    tell!(info, target: "tickless_durable::cluster", instance, shard, fence, "shard {what}");
}

/// An instance of a cluster fails at something, which it tries again.
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) fn trouble(instance: u64, shard: Option<u32>, error: &StoreError) {
    #[cfg(feature = "tracing")]
    tell!(warn, target: "tickless_durable::cluster", instance, shard, %error, "trouble");
}
