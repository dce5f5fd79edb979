//! The node of a keyed timer: its key, the key's hash, its gate, and a reference to the table.
//!
//! *Owner*: shared by reference count, between the table and the tickets that the engine holds. The
//! closure is not in the node, so that a reference to a node keeps no closure alive.
//!
//! *Invariants*
//! - `Hash` of a key is called once, before anything else happens. The table uses only the number.
//! - A node that is under its key has a *name*: the address of the node whose key the table keeps
//!   (its own, or that of an earlier timer that it replaced). The name finds the node again without
//!   `Eq`, which therefore never runs on a reaper.
//!
//! *Tested by*: `tests/keyed_keys.rs`.

use std::borrow::Borrow;

use crate::protocol::gate::Gate;
use crate::sync::{Arc, AtomicUsize, CountShard, Ordering};

use super::table::Table;

/// A key and the state that belongs to it.
pub(super) struct Node<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    pub(super) gate: Gate,
    name: AtomicUsize,
    count: CountShard<Counted<K>>,
}

/// One of several reference-counted pointers to the table, with the number of waiting timers that
/// are counted there.
pub(super) struct Counted<K> {
    pub(super) table: Arc<Table<K>>,
    waiting: AtomicUsize,
}

/// The node whose key the table keeps while a timer waits under it.
pub(super) struct Named<K>(pub(super) Arc<Node<K>>);

/// A search for an equal key.
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

    /// Names the node, which is being entered under `named`. Called under the lock of the key.
    pub(super) fn name_after(&self, named: &Named<K>) {
        // ORDER: Relaxed - written and read under the lock of the key.
        self.name.store(named.address(), Ordering::Relaxed);
    }

    /// Whether `named` is the node's name. (The node may have been taken out since.) Called under
    /// the lock of the key.
    pub(super) fn is_under(&self, named: &Named<K>) -> bool {
        // ORDER: Relaxed - written and read under the lock of the key.
        self.name.load(Ordering::Relaxed) == named.address()
    }

    /// Counts the node, which is being entered. Called under the lock of the key, so that no thread
    /// can take it out before it was counted.
    pub(super) fn count_in(&self) {
        // ORDER: Relaxed - a counter, which orders nothing.
        self.count.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts that the node was taken out.
    pub(super) fn count_out(&self) {
        // ORDER: Relaxed - a counter, which orders nothing.
        self.count.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

debug! { impl[K] Node[K] { gate = |this| this.gate } }

// === impl Counted ===

impl<K> Counted<K> {
    pub(super) fn new(table: Arc<Table<K>>) -> Counted<K> {
        Counted { table, waiting: AtomicUsize::new(0) }
    }

    pub(super) fn waiting(&self) -> usize {
        // ORDER: Relaxed - a counter, which orders nothing.
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
    /// Whether `named` has this key, by the `Eq` of keys.
    pub(super) fn is<K: Borrow<Q>>(&self, named: &Named<K>) -> bool {
        named.0.hash == self.hash && *named.0.key.borrow() == *self.key
    }
}
