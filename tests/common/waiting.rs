//! Operations that wait in a purgatory whose clock is moved by hand.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tickless::purgatory::{Delayed, Purgatory};
use tickless::{Engine, ManualClock};

use crate::operation::Op;

/// An empty purgatory, and the engine to advance.
pub(crate) fn by_hand<K: Hash + Eq + Send + 'static>() -> (Purgatory<K, Op>, Engine) {
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    (Purgatory::with_engine(&engine), engine)
}

/// Lets an operation wait that cannot complete yet.
pub(crate) fn wait<K: Hash + Eq + Copy + Send + 'static>(
    purgatory: &Purgatory<K, Op>,
    op: &Arc<Op>,
    keys: &[K],
    timeout: Duration,
) -> Delayed<K, Op> {
    let arrival = purgatory.try_complete_else_watch(op.clone(), keys.iter().copied(), timeout);
    arrival.unwrap().into_delayed().unwrap()
}
