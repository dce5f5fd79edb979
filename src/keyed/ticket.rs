//! What the engine holds of a keyed timer: a ticket, which is worth nothing by itself.
//!
//! Whoever is handed one asks the table whether it is still the one that counts for its node: only
//! then does the closure come out and run. So a cancel wins against a timer that the reaper has
//! taken out already, and against one that waits in some queue to be run.
//!
//! *Invariants*
//! - A ticket arrives at the gate of its node at most once (KEYED).
//! - One that goes any other way than by firing (an engine has stopped, and what it returned is
//!   dropped) takes its timer with it, so that no key stays taken for nothing.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_ends.rs`, `tests/keyed_races.rs`.

use std::fmt;

use crate::dispatch::Panics;
use crate::sync::{Arc, thread};

use super::node::Node;
use super::waiting::Taken;

/// The engine's end of a keyed timer, once per time that it was scheduled there.
pub(super) struct Ticket<K: Eq + Send + Sync + 'static> {
    /// `None`: it was handed in.
    node: Option<Arc<Node<K>>>,
    /// Which of the node's tickets it is.
    generation: u64,
}

// === impl Ticket ===

impl<K: Eq + Send + Sync + 'static> Ticket<K> {
    pub(super) fn new(node: Arc<Node<K>>, generation: u64) -> Ticket<K> {
        Ticket { node: Some(node), generation }
    }

    /// The timer is due: runs its closure, unless something else has become of it.
    pub(super) fn fire(mut self) {
        let Some((taken, node)) = self.hand_in() else { return };
        let (task, remains) = taken.expire();
        let mut panics = Panics::none();
        panics.run(|| task.run());
        // Keys are dropped after that, and never while the closure's panic is under way: theirs,
        // if they had one, would end the process.
        remains.let_go(&mut panics);
        panics.drop(node);
        panics.go_on();
    }

    /// Takes the timer from under its key, if this ticket is the one that counts.
    fn hand_in(&mut self) -> Option<(Taken<K>, Arc<Node<K>>)> {
        let node = self.node.take()?;
        // The usual case of a ticket that is dropped: its timer was cancelled.
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
        // Not where another is under way: a second would end the process.
        if !thread::panicking() {
            panics.go_on();
        }
    }
}

impl<K: Eq + Send + Sync + 'static> fmt::Debug for Ticket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("generation", &self.generation).finish_non_exhaustive()
    }
}
