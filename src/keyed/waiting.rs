//! What waits under a key, as the table keeps it.
//!
//! *Owner*: the table, and then whoever took it out, alone. It is changed under the lock of its key
//! only, so none of it is atomic.
//!
//! *Invariant*: it leaves the table through `expire` or `call_off`, which leave the closure to
//! their caller and end everything else.

use std::{fmt, mem};

use crate::dispatch::{Panics, Task};
use crate::engine::Handle;
use crate::protocol::generations::{Armed, Generations};
use crate::sync::Arc;

use super::node::{Named, Node};

/// A timer that waits.
pub(super) struct Waiting<K> {
    pub(super) node: Arc<Node<K>>,
    pub(super) handle: Handle,
    task: Task,
    generations: Generations,
}

/// What became of a ticket that was to count from now on: see [`Armed`]. With the handle of the
/// timer that is not needed any more.
pub(super) enum Rearmed {
    /// It counts; here is the one before.
    Counts(Handle),
    Superseded(Handle),
    Early(Handle),
}

/// What was taken out of the table.
pub(super) struct Taken<K> {
    pub(super) named: Named<K>,
    pub(super) waiting: Waiting<K>,
}

/// What is left of a timer besides its closure: keys, whose drop is the user's code.
#[must_use = "keys are dropped where their panics are put off"]
pub(super) struct Remains<K>(Arc<Node<K>>, Option<Named<K>>);

// === impl Waiting ===

impl<K> Waiting<K> {
    /// A timer whose first ticket counts.
    pub(super) fn new(node: Arc<Node<K>>, handle: Handle, task: Task) -> Waiting<K> {
        Waiting { node, handle, task, generations: Generations::default() }
    }

    /// Whether that ticket of that node is the one that counts. One that comes before it counts is
    /// noted.
    pub(super) fn is_due(&mut self, node: &Arc<Node<K>>, generation: u64) -> bool {
        Arc::ptr_eq(&self.node, node) && self.generations.is_due(generation)
    }

    /// The number of another ticket, which does not count yet.
    pub(super) fn issue(&mut self) -> u64 {
        self.generations.issue()
    }

    /// Lets that ticket be the one that counts, with the handle of its timer.
    pub(super) fn rearm(&mut self, generation: u64, handle: Handle) -> Rearmed {
        match self.generations.arm(generation) {
            Armed::Counts => Rearmed::Counts(mem::replace(&mut self.handle, handle)),
            Armed::Superseded => Rearmed::Superseded(handle),
            Armed::Early => Rearmed::Early(handle),
        }
    }

    /// Prevents the timer: answers its closure.
    pub(super) fn call_off(self) -> (Task, Remains<K>) {
        self.node.gate.end();
        // Where it is too late for this, whoever is handed the ticket finds that it is worth
        // nothing.
        self.handle.cancel();
        (self.task, Remains(self.node, None))
    }
}

impl<K> fmt::Debug for Waiting<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("generations", &self.generations).finish_non_exhaustive()
    }
}

// === impl Taken ===

impl<K> Taken<K> {
    /// The timer is due: answers its closure.
    pub(super) fn expire(self) -> (Task, Remains<K>) {
        let Waiting { node, handle, task, .. } = self.waiting;
        node.gate.end();
        drop(handle);
        (task, Remains(node, Some(self.named)))
    }

    /// Prevents the timer: answers its closure.
    pub(super) fn call_off(self) -> (Task, Remains<K>) {
        let (task, Remains(node, _)) = self.waiting.call_off();
        (task, Remains(node, Some(self.named)))
    }
}

// === impl Remains ===

impl<K> Remains<K> {
    /// Drops each of the keys, unless somebody else has it.
    pub(super) fn let_go(self, panics: &mut Panics) {
        panics.drop(self.0);
        panics.drop(self.1);
    }
}
