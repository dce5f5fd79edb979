//! The task that expires an operation: the engine's reference to it.
//!
//! If a task is dropped at its time or later, it expires its operation as if it were run: a
//! dispatcher that drops a task for lack of room must not leave an operation waiting for ever. If a
//! task is dropped before its time, its engine has stopped. Its operation then waits on, without a
//! timeout: checks, tickets and [`Purgatory::stop`](super::Purgatory::stop) still find it.
//!
//! *Owner*: the thread that has the task, usually the reaper that hands it over.
//!
//! *Tested by*: `tests/doors_dropped.rs`, `tests/purgatory_ends.rs`.

use std::fmt;

use crate::engine::EngineRef;
use crate::sync::Arc;

use super::node::Node;
use super::{Decision, Operation};

/// Expires an operation, once: when it is run, or when it is dropped at its time or later.
pub(super) struct Expiry<K, O>
where
    K: Send + 'static,
    O: Operation,
{
    /// `None`: it has run.
    node: Option<Arc<Node<K, O>>>,
    due_ns: u64,
    engine: EngineRef,
}

// === impl Expiry ===

impl<K, O> Expiry<K, O>
where
    K: Send + 'static,
    O: Operation,
{
    /// The expiry of an operation at `due_ns` on the engine's clock.
    pub(super) fn new(node: Arc<Node<K, O>>, due_ns: u64, engine: EngineRef) -> Expiry<K, O> {
        Expiry { node: Some(node), due_ns, engine }
    }

    /// The timeout has come.
    pub(super) fn come(mut self) {
        if let Some(node) = self.node.take() {
            node.decide(Decision::Expired);
        }
    }
}

impl<K, O> Drop for Expiry<K, O>
where
    K: Send + 'static,
    O: Operation,
{
    fn drop(&mut self) {
        let Some(node) = self.node.take() else { return };
        // In the usual case of a dropped task, its operation has ended already.
        if node.decision().is_none() && self.engine.has_reached(self.due_ns) {
            node.decide(Decision::Expired);
        }
    }
}

impl<K, O> fmt::Debug for Expiry<K, O>
where
    K: Send + 'static,
    O: Operation,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry").field("due_ns", &self.due_ns).finish_non_exhaustive()
    }
}
