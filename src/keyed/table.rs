//! What waits under which key. *The table decides*: whoever takes a timer out of it has it.
//!
//! Cancelling, replacing and firing all mean to take an entry out, under the lock of its key: so
//! each timer ends once, and whatever is in the table is waiting, to everybody who looks. What the
//! engine says of it decides nothing: a timer that the reaper has taken out but not come to can
//! still be cancelled, replaced and moved.
//!
//! Keys are spread over parts by their hashes, each of which is a table under a lock, for the time
//! of one search. What leaves a table is moved out of it, and dropped by whoever took it, unlocked.
//! No table is shared with anybody else's, so that nothing of others is dropped here either. (The
//! reclamation of concurrent maps does that: it runs destructors of whatever else the thread has
//! retired there, in the middle of a call.)
//!
//! *Invariants*
//! - Under such a lock nothing of the user's runs but `Eq` of keys, in a call of the user's own
//!   (see `node`). Nothing is scheduled, cancelled or dropped there.
//! - A node is named, counted and its gate opened under the lock under which it is entered.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_oracle.rs`, `tests/keyed_races.rs`,
//! `tests/keyed_foreign.rs`.

use std::borrow::Borrow;
use std::fmt;
use std::mem;

use hashbrown::HashTable;

use crate::dispatch::Task;
use crate::engine::{CancelOnDrop, Handle};
use crate::sync::{Arc, Mutex, MutexGuard, Padded, spread};
use crate::time::Tick;

use super::node::{ByKey, Named, Node};
use super::waiting::{Rearmed, Taken, Waiting};

/// Into how many parts keys are spread.
const PARTS: usize = 256;

/// A table for so many timers is kept whatever happens.
const KEPT: usize = 16;

/// The timers that wait.
pub(super) struct Table<K> {
    parts: Box<[Padded<Mutex<Part<K>>>]>,
}

/// The timers under some of the keys: those whose hashes share some bits.
struct Part<K> {
    entries: HashTable<Entry<K>>,
}

/// A timer under its key.
struct Entry<K> {
    /// As the tables use it.
    hash: u64,
    named: Named<K>,
    waiting: Waiting<K>,
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
        let part = || Padded(Mutex::new(Part { entries: HashTable::new() }));
        Table { parts: (0..PARTS).map(|_| part()).collect() }
    }

    /// The part of a hash, and the hash as its table uses it.
    fn part(&self, hash: u64) -> (MutexGuard<'_, Part<K>>, u64) {
        // The table uses the lowest and the highest bits.
        let hash = spread(hash);
        (lock(&self.parts[(hash >> 32) as usize % PARTS]), hash)
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
        // What is not used of these is dropped after the lock was let go.
        let waiting = |node, task| Waiting::new(node, timer.into_handle(), task);
        let (mut part, hash) = self.part(node.hash);
        match part.find(hash, |named| named.0.key == node.key) {
            Some(_) if rule == Rule::IfAbsent => Entered::Occupied(task),
            _ if !node.gate.open() => Entered::Early(node, task),
            Some(place) => {
                // It is counted where the other was: keys that are equal have one hash.
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

    /// Takes out what waits under a key.
    pub(super) fn take<Q>(&self, key: &ByKey<'_, Q>) -> Option<Taken<K>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let (mut part, hash) = self.part(key.hash);
        part.take(hash, |named| key.is(named), |_| true)
    }

    /// Takes a timer out, if that ticket is the one that counts.
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

    /// Moves what waits under a key, or says how to; `None`: nothing waits there.
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

    /// Lets that ticket be the one that counts; `Err`: the timer waits no more.
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

    /// When what waits under a key is due; `None`: nothing waits there.
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

    /// Every node that waits. What comes or goes meanwhile may be among them or not.
    pub(super) fn nodes(&self) -> Vec<Arc<Node<K>>> {
        let mut nodes = Vec::new();
        for part in &self.parts {
            nodes.extend(lock(part).entries.iter().map(|entry| entry.waiting.node.clone()));
        }
        nodes
    }
}

impl<K> fmt::Debug for Table<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

/// A key's `Eq` that panics leaves the part as it was.
fn lock<K>(part: &Mutex<Part<K>>) -> MutexGuard<'_, Part<K>> {
    part.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

// === impl Part ===

impl<K> Part<K> {
    /// The entry of that hash whose name is meant.
    fn find(&mut self, hash: u64, is_it: impl Fn(&Named<K>) -> bool) -> Option<&mut Entry<K>> {
        self.entries.find_mut(hash, |entry| entry.hash == hash && is_it(&entry.named))
    }

    fn insert(&mut self, entry: Entry<K>) {
        self.entries.insert_unique(entry.hash, entry, |entry| entry.hash);
    }

    /// Takes out the entry of that hash whose name is meant, if its timer `may` go.
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

    /// Gives memory back that a burst needed.
    fn shrink(&mut self) {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        if capacity > KEPT && len < capacity / 8 {
            self.entries.shrink_to(2 * len, |entry| entry.hash);
        }
    }
}
