//! Counters of a service.

use std::time::Duration;

/// What a service has done since it was opened, and what it has in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers that were scheduled.
    pub scheduled: u64,
    /// Timers that have reached the store: new ones, the next ones of recurring timers, and those
    /// that dead letters have become again.
    pub stored: u64,
    /// Timers that were cancelled or replaced before they reached the store.
    pub elided: u64,
    /// Times that a handler was called, or was not because the payload cannot be read.
    pub fired: u64,
    /// Of those, how often it failed or panicked.
    pub failed: u64,
    /// Timers that were put off to another attempt.
    pub retried: u64,
    /// Attempts that were noted before they began: see [`crashes`](crate::Builder::crashes).
    pub noted: u64,
    /// Timers that became dead letters. Records that cannot be read count if the service meets them
    /// when it reads on, not if [`list`](crate::Durable::list) or the opening does.
    pub buried: u64,
    /// Batches that were committed.
    pub batches: u64,
    /// Times that a page was read from the store.
    pub refills: u64,
    /// Timers that are in memory, those that are `busy` included.
    pub near: usize,
    /// Timers that are due and not yet over: they wait for a handler, or one runs them, or their
    /// end is not durable yet.
    pub busy: usize,
    /// Handlers that run for longer than they [may](crate::Builder::handler_limit).
    pub stuck: usize,
    /// How many [pauses](crate::Durable::pause) there are.
    pub pauses: usize,
    /// How late the first timer in memory is that waits for a handler.
    pub lag: Duration,
}
