//! What the engine holds of an operation: the task that expires it.
//!
//! A task that is dropped instead of run expires its operation all the same, where its time has
//! come: a dispatcher that drops what it cannot take must not leave an operation waiting for ever.
//! One that is dropped before its time comes from an engine that has stopped. Its operation waits
//! on, without a timeout: it is still there for checks, for tickets and for
//! [`Purgatory::stop`](super::Purgatory::stop).
//!
//! *Owner*: whoever has the task; the reaper that hands it over, usually.
//!
//! *Tested by*: `tests/doors_dropped.rs`, `tests/purgatory_ends.rs`.

use std::fmt;

use crate::engine::EngineRef;
use crate::sync::Arc;

use super::node::Node;
use super::{Decision, Operation};

/// Expires an operation, once: when it comes, or when it is dropped at its time or later.
pub(super) struct Expiry<K, O>
where
    K: Send + 'static,
    O: Operation,
{
    /// `None`: it has come.
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
    /// The expiry of an operation at a time on the engine's clock.
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
        // The usual case of a task that is dropped: its operation is over.
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
