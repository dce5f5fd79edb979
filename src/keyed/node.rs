//! The node of a keyed timer (its key, the key's hash, its gate, a reference to the table), and its
//! tickets: the engine's payload, without the closure.
//!
//! The thread that runs a ticket checks in the table whether the ticket still counts for its node.
//! Only then is the closure taken out and run. So a cancel wins even if the reaper has taken the
//! timer out already, or if the ticket waits in a queue to be run.
//!
//! *Owner*: shared by reference count (`protocol/twin.rs`), between the table and the tickets that
//! the engine holds. The closure is not in the node, so that a reference to a node keeps no closure
//! alive.
//!
//! *Invariants*
//! - `Hash` of a key is called once, before anything else happens. The table uses only the number.
//! - A ticket arrives at the gate of its node at most once (KEYED).
//! - If a ticket is dropped without firing (an engine has stopped, and its returned tasks are
//!   dropped), its timer is taken out of the table, so that its key becomes free.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_keys.rs`, `tests/keyed_ends.rs`,
//! `tests/keyed_races.rs`.

use crate::dispatch::Panics;
use crate::protocol::gate::Gate;
use crate::protocol::twin::Twin;
use crate::sync::{Arc, CountShard, thread};

use super::table::{Table, Waiting};

/// A key and the state that belongs to it.
pub(super) struct Node<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    pub(super) gate: Gate,
    table: CountShard<Arc<Table<K>>>,
}

/// The engine's end of a keyed timer. There is one for each time it was scheduled there.
pub(super) struct Ticket<K> {
    /// `None` after it was handed in.
    node: Option<Twin<Node<K>>>,
    /// The number of this ticket among the node's.
    generation: u64,
}

// === impl Node ===

impl<K> Node<K> {
    /// A new node, for the maker and for its first ticket.
    pub(super) fn pair(key: K, hash: u64, table: CountShard<Arc<Table<K>>>) -> [Twin<Node<K>>; 2] {
        Twin::pair(Node { key, hash, gate: Gate::new(), table })
    }
}

// === impl Ticket ===

impl<K> Ticket<K> {
    pub(super) fn new(node: Twin<Node<K>>, generation: u64) -> Ticket<K> {
        Ticket { node: Some(node), generation }
    }

    /// The timer is due: runs its closure, if this ticket counts.
    pub(super) fn fire(mut self) {
        let Some(waiting) = self.hand_in() else { return };
        let (task, node) = waiting.expire();
        let mut panics = Panics::none();
        panics.run(|| task.run());
        // The key is dropped after that, and never while the closure's panic unwinds: a second
        // panic would abort the process.
        panics.drop(node);
        panics.go_on();
    }

    /// Takes the timer out of the table, if this ticket counts.
    fn hand_in(&mut self) -> Option<Waiting<K>> {
        let node = self.node.take()?;
        // The usual case when a ticket is dropped: its timer was cancelled.
        if node.gate.is_over() {
            return None;
        }
        node.table.hand_in(&node, self.generation)
    }
}

impl<K> Drop for Ticket<K> {
    fn drop(&mut self) {
        let Some(waiting) = self.hand_in() else { return };
        let mut panics = Panics::none();
        waiting.discard(&mut panics);
        // Not while another panic unwinds: a second would abort the process.
        if !thread::panicking() {
            panics.go_on();
        }
    }
}
