//! A waiting timer, as the table keeps it.
//!
//! *Owner*: the table, and then only the thread that took it out. It is changed only under the lock
//! of its key, so none of it is atomic.
//!
//! *Invariant*: the thread that took it out calls `expire` or `call_off`, which return the closure
//! and end everything else.

use std::mem;

use crate::dispatch::{Panics, Task};
use crate::engine::Handle;
use crate::protocol::generations::{Armed, Generations};
use crate::sync::Arc;

use super::node::{Named, Node};

/// A waiting timer.
pub(super) struct Waiting<K> {
    pub(super) node: Arc<Node<K>>,
    pub(super) handle: Handle,
    task: Task,
    generations: Generations,
}

/// The result of arming a ticket: see [`Armed`]. Contains the handle of the timer that is no longer
/// needed.
pub(super) enum Rearmed {
    /// The ticket counts. Contains the previous timer's handle.
    Counts(Handle),
    Superseded(Handle),
    Early(Handle),
}

/// A timer that was taken out of the table.
pub(super) struct Taken<K> {
    pub(super) named: Named<K>,
    pub(super) waiting: Waiting<K>,
}

/// The rest of a timer besides its closure: its keys, whose drop is code of the user.
#[must_use = "keys are dropped where their panics are put off"]
pub(super) struct Remains<K>(Arc<Node<K>>, Option<Named<K>>);

// === impl Waiting ===

impl<K> Waiting<K> {
    /// A timer whose first ticket counts.
    pub(super) fn new(node: Arc<Node<K>>, handle: Handle, task: Task) -> Waiting<K> {
        Waiting { node, handle, task, generations: Generations::default() }
    }

    /// Whether ticket `generation` of `node` counts. A ticket that comes before it counts is noted.
    pub(super) fn is_due(&mut self, node: &Arc<Node<K>>, generation: u64) -> bool {
        Arc::ptr_eq(&self.node, node) && self.generations.is_due(generation)
    }

    /// Returns the number of a new ticket, which does not count yet.
    pub(super) fn issue(&mut self) -> u64 {
        self.generations.issue()
    }

    /// Lets ticket `generation` count from now on, with the handle of its timer.
    pub(super) fn rearm(&mut self, generation: u64, handle: Handle) -> Rearmed {
        match self.generations.arm(generation) {
            Armed::Counts => Rearmed::Counts(mem::replace(&mut self.handle, handle)),
            Armed::Superseded => Rearmed::Superseded(handle),
            Armed::Early => Rearmed::Early(handle),
        }
    }

    /// Cancels the timer and returns its closure.
    pub(super) fn call_off(self) -> (Task, Remains<K>) {
        self.node.gate.end();
        // If it is too late for this, the thread that runs the ticket finds that it does not count.
        self.handle.cancel();
        (self.task, Remains(self.node, None))
    }
}

debug! { impl[K] Waiting[K] { generations = |this| this.generations } }

// === impl Taken ===

impl<K> Taken<K> {
    /// The timer is due: returns its closure.
    pub(super) fn expire(self) -> (Task, Remains<K>) {
        let Waiting { node, handle, task, .. } = self.waiting;
        node.gate.end();
        drop(handle);
        (task, Remains(node, Some(self.named)))
    }

    /// Cancels the timer and returns its closure.
    pub(super) fn call_off(self) -> (Task, Remains<K>) {
        let (task, Remains(node, _)) = self.waiting.call_off();
        (task, Remains(node, Some(self.named)))
    }
}

// === impl Remains ===

impl<K> Remains<K> {
    /// Drops its references to the keys.
    pub(super) fn let_go(self, panics: &mut Panics) {
        panics.drop(self.0);
        panics.drop(self.1);
    }
}
