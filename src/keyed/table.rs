//! What waits under which key. *The table decides*: whoever takes a timer out of it has it.
//!
//! Cancelling, replacing and firing all mean to take an entry out, under the lock of its key: so
//! each timer ends once, and whatever is in the table is waiting, to everybody who looks. What the
//! engine says of it decides nothing: a timer that the reaper has taken out but not come to can
//! still be cancelled, replaced and moved.
//!
//! The map is `scc`'s: its buckets, of 32 entries, have a lock each, for the time of one search.
//!
//! *Invariants*
//! - Under such a lock nothing of the user's runs but `Eq` of keys, in a call of the user's own
//!   (see `node`). Nothing is scheduled, cancelled or dropped there.
//! - A node is named, counted and its gate opened under the lock under which it is entered.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_oracle.rs`, `tests/keyed_races.rs`.

use std::borrow::Borrow;
use std::fmt;
use std::hash::BuildHasherDefault;

use scc::hash_map::Entry;

use crate::dispatch::Task;
use crate::engine::{CancelOnDrop, Handle};
use crate::sync::Arc;
use crate::time::Tick;

use super::node::{ByKey, ByName, Named, Node, Spread};
use super::waiting::{Rearmed, Taken, Waiting};

/// The timers that wait.
pub(super) struct Table<K> {
    map: scc::HashMap<Named<K>, Waiting<K>, BuildHasherDefault<Spread>>,
}

/// What a new timer does where another waits under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It takes its place.
    Replace,
    /// It is refused.
    IfAbsent,
}

/// What became of a new timer.
pub(super) enum Entered<K> {
    /// It waits, where nothing did.
    New,
    /// It waits, in place of another, which is to be called off.
    Instead(Waiting<K>),
    /// It does not: another does, and here is the closure.
    Occupied(Task),
    /// It was due already, and is to be scheduled again.
    Early(Arc<Node<K>>, Task),
}

/// What a timer needs that is to be moved.
pub(super) enum Move<K> {
    /// Nothing: it was moved.
    Done,
    /// Another timer of the engine, with that ticket.
    Anew(Arc<Node<K>>, u64),
}

// === impl Table ===

impl<K> Table<K> {
    pub(super) fn new() -> Table<K> {
        Table { map: scc::HashMap::with_hasher(BuildHasherDefault::default()) }
    }
}

impl<K: Eq + Send + Sync + 'static> Table<K> {
    /// Enters a timer that is scheduled on the engine.
    ///
    /// # Panics
    /// `Eq` of the keys did; the timer is cancelled then.
    pub(super) fn enter(
        &self,
        node: Arc<Node<K>>,
        timer: CancelOnDrop,
        task: Task,
        rule: Rule,
    ) -> Entered<K> {
        let waiting = |node, task| Waiting::new(node, timer.into_handle(), task);
        match self.map.entry_sync(Named(node.clone())) {
            Entry::Occupied(_) if rule == Rule::IfAbsent => Entered::Occupied(task),
            _ if !node.gate.open() => Entered::Early(node, task),
            Entry::Occupied(mut place) => {
                // It is counted where the other was: keys that are equal have one hash.
                node.name_after(place.key());
                Entered::Instead(place.insert(waiting(node, task)))
            }
            Entry::Vacant(place) => {
                node.name_after(place.key());
                node.count_in();
                place.insert_entry(waiting(node, task));
                Entered::New
            }
        }
    }

    /// Takes out what waits under a key.
    pub(super) fn take<Q>(&self, key: &ByKey<'_, Q>) -> Option<Taken<K>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        taken(self.map.remove_sync(key))
    }

    /// Takes a timer out, if that ticket is the one that counts.
    pub(super) fn take_turn(&self, node: &Arc<Node<K>>, turn: u64) -> Option<Taken<K>> {
        taken(self.map.remove_if_sync(&ByName(node), |waiting| waiting.is_due(node, turn)))
    }

    /// Takes a timer out, if it waits.
    pub(super) fn take_node(&self, node: &Arc<Node<K>>) -> Option<Taken<K>> {
        let is_it = |waiting: &mut Waiting<K>| Arc::ptr_eq(&waiting.node, node);
        taken(self.map.remove_if_sync(&ByName(node), is_it))
    }

    /// Moves what waits under a key, or says how to; `None`: nothing waits there.
    pub(super) fn postpone<Q>(&self, key: &ByKey<'_, Q>, deadline: Tick) -> Option<Move<K>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.map.update_sync(key, |_, waiting| {
            if waiting.handle.postpone(deadline) {
                Move::Done
            } else {
                Move::Anew(waiting.node.clone(), waiting.issue())
            }
        })
    }

    /// Lets that ticket be the one that counts; `Err`: the timer waits no more.
    pub(super) fn rearm(
        &self,
        node: &Arc<Node<K>>,
        turn: u64,
        handle: Handle,
    ) -> Result<Rearmed, Handle> {
        let mut handle = Some(handle);
        let rearmed = self.map.update_sync(&ByName(node), |_, waiting| {
            let is_it = Arc::ptr_eq(&waiting.node, node);
            is_it.then(|| handle.take().map(|handle| waiting.rearm(turn, handle))).flatten()
        });
        rearmed.flatten().ok_or_else(|| handle.expect("it was not used"))
    }

    /// When what waits under a key is due; `None`: nothing waits there.
    pub(super) fn deadline<Q>(&self, key: &ByKey<'_, Q>) -> Option<Tick>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.map.read_sync(key, |_, waiting| waiting.handle.tick())
    }

    pub(super) fn contains<Q>(&self, key: &ByKey<'_, Q>) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.map.contains_sync(key)
    }

    /// Every node that waits. What comes or goes meanwhile may be among them or not.
    pub(super) fn nodes(&self) -> Vec<Arc<Node<K>>> {
        let mut nodes = Vec::new();
        self.map.iter_sync(|_, waiting| {
            nodes.push(waiting.node.clone());
            true
        });
        nodes
    }
}

impl<K> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

fn taken<K>(entry: Option<(Named<K>, Waiting<K>)>) -> Option<Taken<K>> {
    let (named, waiting) = entry?;
    waiting.node.count_out();
    Some(Taken { named, waiting })
}
