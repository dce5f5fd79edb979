//! An operation that waits in a purgatory.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use support::operation::Op;
use tickless_purgatory::{Delayed, Purgatory};

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
