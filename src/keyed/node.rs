//! What a keyed timer is known by: its key, the hash of that, its gate, and the way to the table.
//!
//! *Owner*: everybody, by reference count: the table, and whatever the engine holds of the timer.
//! The closure is not in here, so that nobody who keeps a node keeps a closure.
//!
//! *Invariants*
//! - `Hash` of a key is called once, before anything else happens; the table has numbers only.
//! - A node that is under its key bears a *name*, which is the address of the node whose key the
//!   table keeps (its own, or that of an earlier timer that it replaced). By that it is found again
//!   without `Eq`, which so never runs on a reaper.
//!
//! *Tested by*: `tests/keyed_keys.rs`.

use std::borrow::Borrow;
use std::fmt;

use crate::protocol::gate::Gate;
use crate::sync::{Arc, AtomicUsize, CountShard, Ordering};

use super::table::Table;

/// A key and what belongs to it.
pub(super) struct Node<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    pub(super) gate: Gate,
    name: AtomicUsize,
    count: CountShard<Counted<K>>,
}

/// One of several references to the table, and how many timers wait by this one.
pub(super) struct Counted<K> {
    pub(super) table: Arc<Table<K>>,
    waiting: AtomicUsize,
}

/// The node whose key the table keeps, as long as something waits under it.
pub(super) struct Named<K>(pub(super) Arc<Node<K>>);

/// Looks for what has an equal key.
pub(super) struct ByKey<'a, Q: ?Sized> {
    pub(super) key: &'a Q,
    pub(super) hash: u64,
}

// === impl Node ===

impl<K> Node<K> {
    pub(super) fn new(key: K, hash: u64, count: CountShard<Counted<K>>) -> Arc<Node<K>> {
        let (gate, name) = (Gate::new(), AtomicUsize::new(0));
        Arc::new(Node { key, hash, gate, name, count })
    }

    pub(super) fn table(&self) -> &Table<K> {
        &self.count.table
    }

    /// The node is being entered under `named`. Called under the lock of the key.
    pub(super) fn name_after(&self, named: &Named<K>) {
        // ORDER: Relaxed - written and read under the lock of the key.
        self.name.store(named.address(), Ordering::Relaxed);
    }

    /// Whether that is where the node is, or was. Called under the lock of the key.
    pub(super) fn is_under(&self, named: &Named<K>) -> bool {
        // ORDER: Relaxed - written and read under the lock of the key.
        self.name.load(Ordering::Relaxed) == named.address()
    }

    /// The node is being entered. Called under the lock of the key, so that nobody can take it out
    /// before it was counted.
    pub(super) fn count_in(&self) {
        // ORDER: Relaxed - a number and nothing else.
        self.count.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// The node was taken out.
    pub(super) fn count_out(&self) {
        // ORDER: Relaxed - a number and nothing else.
        self.count.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K> fmt::Debug for Node<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("gate", &self.gate).finish_non_exhaustive()
    }
}

// === impl Counted ===

impl<K> Counted<K> {
    pub(super) fn new(table: Arc<Table<K>>) -> Counted<K> {
        Counted { table, waiting: AtomicUsize::new(0) }
    }

    pub(super) fn waiting(&self) -> usize {
        // ORDER: Relaxed - a number and nothing else.
        self.waiting.load(Ordering::Relaxed)
    }
}

// === impl Named ===

impl<K> Named<K> {
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

// === impl ByKey ===

impl<Q: Eq + ?Sized> ByKey<'_, Q> {
    /// Whether that is the key, by its own `Eq`.
    pub(super) fn is<K: Borrow<Q>>(&self, named: &Named<K>) -> bool {
        named.0.hash == self.hash && *named.0.key.borrow() == *self.key
    }
}
