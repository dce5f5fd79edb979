//! The engine's payload for a keyed timer: a ticket, without the closure.
//!
//! The thread that runs a ticket checks in the table whether the ticket still counts for its node.
//! Only then is the closure taken out and run. So a cancel wins even if the reaper has taken the
//! timer out already, or if the ticket waits in a queue to be run.
//!
//! *Invariants*
//! - A ticket arrives at the gate of its node at most once (KEYED).
//! - If a ticket is dropped without firing (an engine has stopped, and its returned tasks are
//!   dropped), its timer is taken out of the table, so that its key becomes free.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_ends.rs`, `tests/keyed_races.rs`.

use crate::dispatch::Panics;
use crate::sync::{Arc, thread};

use super::node::Node;
use super::waiting::Taken;

/// The engine's end of a keyed timer. There is one for each time it was scheduled there.
pub(super) struct Ticket<K: Eq + Send + Sync + 'static> {
    /// `None` after it was handed in.
    node: Option<Arc<Node<K>>>,
    /// The number of this ticket among the node's.
    generation: u64,
}

// === impl Ticket ===

impl<K: Eq + Send + Sync + 'static> Ticket<K> {
    pub(super) fn new(node: Arc<Node<K>>, generation: u64) -> Ticket<K> {
        Ticket { node: Some(node), generation }
    }

    /// The timer is due: runs its closure, if this ticket counts.
    pub(super) fn fire(mut self) {
        let Some((taken, node)) = self.hand_in() else { return };
        let (task, remains) = taken.expire();
        let mut panics = Panics::none();
        panics.run(|| task.run());
        // Keys are dropped after that, and never while the closure's panic unwinds: a second panic
        // would abort the process.
        remains.let_go(&mut panics);
        panics.drop(node);
        panics.go_on();
    }

    /// Takes the timer out of the table, if this ticket counts.
    fn hand_in(&mut self) -> Option<(Taken<K>, Arc<Node<K>>)> {
        let node = self.node.take()?;
        // The usual case when a ticket is dropped: its timer was cancelled.
        if node.gate.is_over() || !node.gate.arrive() {
            return None;
        }
        let taken = node.table().take_generation(&node, self.generation)?;
        Some((taken, node))
    }
}

impl<K: Eq + Send + Sync + 'static> Drop for Ticket<K> {
    fn drop(&mut self) {
        let Some((taken, node)) = self.hand_in() else { return };
        let (task, remains) = taken.call_off();
        let mut panics = Panics::none();
        panics.drop(task);
        remains.let_go(&mut panics);
        panics.drop(node);
        // Not while another panic unwinds: a second would abort the process.
        if !thread::panicking() {
            panics.go_on();
        }
    }
}

debug! { impl[K: Eq + Send + Sync + 'static] Ticket[K] { generation = |this| this.generation } }
