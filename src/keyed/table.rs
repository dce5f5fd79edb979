//! The map from keys to waiting timers. *The table decides*: the thread that takes a timer out of
//! it owns the timer's end.
//!
//! Cancelling, replacing and firing all take an entry out, under the lock of its key. So each timer
//! ends once, and every timer in the table is waiting, for all threads. The engine's state of a
//! timer decides nothing: if the reaper has taken a timer out but its task has not started, it can
//! still be cancelled, replaced and moved.
//!
//! Keys are spread over parts by their hashes. Each part is a table under a lock, which is held for
//! one search. An entry that leaves a table is moved out, and the thread that took it drops it
//! without the lock. The table uses no shared reclamation, so no foreign value is dropped here.
//! (Concurrent maps with shared reclamation run the destructors of other values that the thread has
//! retired, in the middle of a call.)
//!
//! *Invariants*
//! - Under such a lock, `Eq` of keys is the only code of the user that runs, and only in a call of
//!   the user's own (see `node`). Nothing is scheduled, cancelled or dropped there.
//! - A node is named and counted, and its gate is opened, under the lock under which it is entered.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_oracle.rs`, `tests/keyed_races.rs`,
//! `tests/keyed_foreign.rs`.

use std::borrow::Borrow;
use std::mem;

use hashbrown::HashTable;

use crate::dispatch::Task;
use crate::engine::{CancelOnDrop, Handle};
use crate::sync::{Arc, CachePadded, Mutex, MutexGuard, spread};
use crate::time::Tick;

use super::node::{ByKey, Named, Node};
use super::waiting::{Rearmed, Taken, Waiting};

/// The number of parts.
const PARTS: usize = 256;

/// A table with at most this capacity is not shrunk.
const KEPT: usize = 16;

/// The waiting timers.
pub(super) struct Table<K> {
    parts: Box<[CachePadded<Mutex<Part<K>>>]>,
}

/// The timers under some of the keys: those whose hashes share some bits.
struct Part<K> {
    entries: HashTable<Entry<K>>,
}

/// A timer under its key.
struct Entry<K> {
    /// The key's hash after `spread`.
    hash: u64,
    named: Named<K>,
    waiting: Waiting<K>,
}

/// What a new timer does if another waits under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It replaces the other.
    Replace,
    /// It is refused.
    IfAbsent,
}

/// The result of entering a new timer.
pub(super) enum Entered<K> {
    /// It waits, and no other did.
    New,
    /// It waits in place of another, which the caller must call off.
    Instead(Waiting<K>),
    /// It was refused, because another waits. Contains the closure.
    Occupied(Task),
    /// It was due already, and the caller must schedule it again.
    Early(Arc<Node<K>>, Task),
}

/// The result of moving a timer.
pub(super) enum Move<K> {
    /// It was moved.
    Done,
    /// It needs another timer of the engine, with this ticket.
    Anew(Arc<Node<K>>, u64),
}

// === impl Table ===

impl<K> Table<K> {
    pub(super) fn new() -> Table<K> {
        let part = || CachePadded::new(Mutex::new(Part { entries: HashTable::new() }));
        Table { parts: (0..PARTS).map(|_| part()).collect() }
    }

    /// Locks the part of a hash. Returns it with the hash as its table uses it.
    fn part(&self, hash: u64) -> (MutexGuard<'_, Part<K>>, u64) {
        // The table uses the lowest and the highest bits, so the part is chosen by others.
        let hash = spread(hash);
        (lock(&self.parts[(hash >> 32) as usize % PARTS]), hash)
    }
}

impl<K: Eq + Send + Sync + 'static> Table<K> {
    /// Enters a timer that is scheduled on the engine.
    ///
    /// # Panics
    /// If `Eq` of the keys panics. The timer is cancelled then.
    pub(super) fn enter(
        &self,
        node: Arc<Node<K>>,
        timer: CancelOnDrop,
        task: Task,
        rule: Rule,
    ) -> Entered<K> {
        // The arguments that are not used are dropped after the lock is released.
        let waiting = |node, task| Waiting::new(node, timer.into_handle(), task);
        let (mut part, hash) = self.part(node.hash);
        match part.find(hash, |named| named.0.key == node.key) {
            Some(_) if rule == Rule::IfAbsent => Entered::Occupied(task),
            _ if !node.gate.open() => Entered::Early(node, task),
            Some(place) => {
                // It is counted where the other was: equal keys have equal hashes.
                node.name_after(&place.named);
                Entered::Instead(mem::replace(&mut place.waiting, waiting(node, task)))
            }
            None => {
                let named = Named(node.clone());
                node.name_after(&named);
                node.count_in();
                part.insert(Entry { hash, named, waiting: waiting(node, task) });
                Entered::New
            }
        }
    }

    /// Takes out the timer that waits under a key.
    pub(super) fn take<Q>(&self, key: &ByKey<'_, Q>) -> Option<Taken<K>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let (mut part, hash) = self.part(key.hash);
        part.take(hash, |named| key.is(named), |_| true)
    }

    /// Takes a timer out, if ticket `generation` of `node` counts.
    pub(super) fn take_generation(&self, node: &Arc<Node<K>>, generation: u64) -> Option<Taken<K>> {
        let (mut part, hash) = self.part(node.hash);
        part.take(hash, |named| node.is_under(named), |waiting| waiting.is_due(node, generation))
    }

    /// Takes a timer out, if it waits.
    pub(super) fn take_node(&self, node: &Arc<Node<K>>) -> Option<Taken<K>> {
        let (mut part, hash) = self.part(node.hash);
        let is_it = |waiting: &mut Waiting<K>| Arc::ptr_eq(&waiting.node, node);
        part.take(hash, |named| node.is_under(named), is_it)
    }

    /// Moves the timer that waits under a key, or returns what it needs for that. `None`: no timer
    /// waits there.
    pub(super) fn postpone<Q>(&self, key: &ByKey<'_, Q>, deadline: Tick) -> Option<Move<K>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let (mut part, hash) = self.part(key.hash);
        let Entry { waiting, .. } = part.find(hash, |named| key.is(named))?;
        Some(if waiting.handle.postpone(deadline) {
            Move::Done
        } else {
            Move::Anew(waiting.node.clone(), waiting.issue())
        })
    }

    /// Lets ticket `generation` of `node` count from now on. `Err`: the timer no longer waits.
    pub(super) fn rearm(
        &self,
        node: &Arc<Node<K>>,
        generation: u64,
        handle: Handle,
    ) -> Result<Rearmed, Handle> {
        let (mut part, hash) = self.part(node.hash);
        match part.find(hash, |named| node.is_under(named)) {
            Some(Entry { waiting, .. }) if Arc::ptr_eq(&waiting.node, node) => {
                Ok(waiting.rearm(generation, handle))
            }
            _ => Err(handle),
        }
    }

    /// Returns the deadline of the timer that waits under a key. `None`: no timer waits there.
    pub(super) fn deadline<Q>(&self, key: &ByKey<'_, Q>) -> Option<Tick>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let (mut part, hash) = self.part(key.hash);
        part.find(hash, |named| key.is(named)).map(|entry| entry.waiting.handle.tick())
    }

    pub(super) fn contains<Q>(&self, key: &ByKey<'_, Q>) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let (mut part, hash) = self.part(key.hash);
        part.find(hash, |named| key.is(named)).is_some()
    }

    /// Returns all waiting nodes. Nodes that are added or removed meanwhile may or may not be
    /// included.
    pub(super) fn nodes(&self) -> Vec<Arc<Node<K>>> {
        let mut nodes = Vec::new();
        for part in &self.parts {
            nodes.extend(lock(part).entries.iter().map(|entry| entry.waiting.node.clone()));
        }
        nodes
    }
}

debug! { impl[K] Table[K] {} }

/// Locks a part. It ignores poisoning: if `Eq` of a key panics, the part is unchanged.
fn lock<K>(part: &Mutex<Part<K>>) -> MutexGuard<'_, Part<K>> {
    part.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

// === impl Part ===

impl<K> Part<K> {
    /// Finds the entry with this hash whose name fits `is_it`.
    fn find(&mut self, hash: u64, is_it: impl Fn(&Named<K>) -> bool) -> Option<&mut Entry<K>> {
        self.entries.find_mut(hash, |entry| entry.hash == hash && is_it(&entry.named))
    }

    fn insert(&mut self, entry: Entry<K>) {
        self.entries.insert_unique(entry.hash, entry, |entry| entry.hash);
    }

    /// Takes out the entry with this hash whose name fits `is_it`, if `may` allows it.
    fn take(
        &mut self,
        hash: u64,
        is_it: impl Fn(&Named<K>) -> bool,
        may: impl FnOnce(&mut Waiting<K>) -> bool,
    ) -> Option<Taken<K>> {
        let is_it = |entry: &Entry<K>| entry.hash == hash && is_it(&entry.named);
        let mut place = self.entries.find_entry(hash, is_it).ok()?;
        if !may(&mut place.get_mut().waiting) {
            return None;
        }
        let (Entry { named, waiting, .. }, _) = place.remove();
        waiting.node.count_out();
        self.shrink();
        Some(Taken { named, waiting })
    }

    /// Releases memory after a burst.
    fn shrink(&mut self) {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        if capacity > KEPT && len < capacity / 8 {
            self.entries.shrink_to(2 * len, |entry| entry.hash);
        }
    }
}
