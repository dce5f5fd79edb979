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
//!   the user's own. Nothing is scheduled, cancelled or dropped there. A ticket finds its timer
//!   again by the address of its node, so `Eq` never runs on a reaper.
//! - A ticket arrives at the gate of its node under the lock under which the gate was opened.
//! - The thread that took a timer out calls `expire`, `call_off` or `discard`, which end everything
//!   but the closure.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_oracle.rs`, `tests/keyed_races.rs`,
//! `tests/keyed_foreign.rs`.

use std::mem;

use hashbrown::HashTable;

use crate::dispatch::{Panics, Task};
use crate::engine::{CancelOnDrop, Handle};
use crate::protocol::generations::{Armed, Generations};
use crate::protocol::twin::Twin;
use crate::sync::{CachePadded, Mutex, MutexGuard};

use super::node::Node;

/// The number of parts.
const PARTS: usize = 256;

/// A table with at most this capacity is not shrunk.
const KEPT: usize = 16;

/// The waiting timers.
pub(super) struct Table<K> {
    parts: Box<[Part<K>]>,
}

/// The timers under some of the keys: those whose hashes share some bits.
type Part<K> = CachePadded<Mutex<HashTable<Waiting<K>>>>;

/// A timer that waits under its key. It is changed only under the lock of the key, so none of it is
/// atomic.
pub(super) struct Waiting<K> {
    /// That of the node, so that a table that grows reads no node.
    hash: u64,
    pub(super) node: Twin<Node<K>>,
    pub(super) handle: Handle,
    task: Task,
    pub(super) generations: Generations,
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
    /// It waits, in place of another if there was one, which the caller must discard.
    Waits(Option<Waiting<K>>),
    /// It was refused, because another waits. Contains the closure.
    Occupied(Task),
    /// It was due already, and the caller must schedule it again.
    Early(Twin<Node<K>>, Task),
}

// === impl Table ===

impl<K> Table<K> {
    pub(super) fn new() -> Table<K> {
        let part = || CachePadded::new(Mutex::new(HashTable::new()));
        Table { parts: (0..PARTS).map(|_| part()).collect() }
    }

    /// Enters a timer that is scheduled on the engine.
    ///
    /// # Panics
    /// If `Eq` of the keys panics. The timer is cancelled then.
    pub(super) fn enter(
        &self,
        node: Twin<Node<K>>,
        timer: CancelOnDrop,
        task: Task,
        rule: Rule,
    ) -> Entered<K>
    where
        K: Eq,
    {
        // The arguments that are not used are dropped after the lock is released.
        let hash = node.hash;
        let mut part = lock(self.part(hash));
        let is_it = |other: &Waiting<K>| other.has(hash) && other.node.key == node.key;
        let other = part.find_mut(hash, is_it);
        if other.is_some() && rule == Rule::IfAbsent {
            return Entered::Occupied(task);
        }
        if !node.gate.open() {
            return Entered::Early(node, task);
        }
        let (handle, generations) = (timer.into_handle(), Generations::default());
        let waiting = Waiting { hash, node, handle, task, generations };
        Entered::Waits(match other {
            Some(other) => Some(mem::replace(other, waiting)),
            None => {
                part.insert_unique(hash, waiting, |waiting| waiting.hash);
                None
            }
        })
    }

    /// Calls `look` with the timer of this hash whose node fits `is_it`. `None`: no such timer
    /// waits.
    pub(super) fn find<R>(
        &self,
        hash: u64,
        is_it: impl Fn(&Twin<Node<K>>) -> bool,
        look: impl FnOnce(&mut Waiting<K>) -> R,
    ) -> Option<R> {
        let mut part = lock(self.part(hash));
        part.find_mut(hash, |other| other.has(hash) && is_it(&other.node)).map(look)
    }

    /// Takes out the timer of this hash whose node fits `is_it`, if `may` allows it.
    pub(super) fn take(
        &self,
        hash: u64,
        is_it: impl Fn(&Twin<Node<K>>) -> bool,
        may: impl FnOnce(&mut Waiting<K>) -> bool,
    ) -> Option<Waiting<K>> {
        take_from(&mut lock(self.part(hash)), hash, is_it, may)
    }

    /// Takes out the timer of a ticket that has come, if the ticket counts. If the timer is not yet
    /// under its key, its maker will find out.
    pub(super) fn hand_in(&self, node: &Twin<Node<K>>, generation: u64) -> Option<Waiting<K>> {
        let mut part = lock(self.part(node.hash));
        if !node.gate.arrive() {
            return None;
        }
        let is_it = |other: &Twin<Node<K>>| Twin::ptr_eq(other, node);
        let is_due = |waiting: &mut Waiting<K>| waiting.generations.is_due(generation);
        take_from(&mut part, node.hash, is_it, is_due)
    }

    /// Returns all waiting nodes. Nodes that are added or removed meanwhile may or may not be
    /// included.
    pub(super) fn nodes(&self) -> Vec<Twin<Node<K>>> {
        let mut nodes = Vec::new();
        for part in &self.parts {
            nodes.extend(lock(part).iter().map(|waiting| waiting.node.clone()));
        }
        nodes
    }

    /// Returns the number of waiting timers.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).len()).sum()
    }

    fn part(&self, hash: u64) -> &Part<K> {
        // A part's table uses the lowest and the highest bits, so the part is chosen by others.
        &self.parts[(hash >> 32) as usize % PARTS]
    }
}

/// Takes the timer of this hash whose node fits `is_it` out of its part, if `may` allows it.
#[inline]
fn take_from<K>(
    part: &mut HashTable<Waiting<K>>,
    hash: u64,
    is_it: impl Fn(&Twin<Node<K>>) -> bool,
    may: impl FnOnce(&mut Waiting<K>) -> bool,
) -> Option<Waiting<K>> {
    let is_it = |other: &Waiting<K>| other.has(hash) && is_it(&other.node);
    let mut place = part.find_entry(hash, is_it).ok()?;
    if !may(place.get_mut()) {
        return None;
    }
    let (waiting, _) = place.remove();
    // Release memory after a burst.
    let (len, capacity) = (part.len(), part.capacity());
    if capacity > KEPT && len < capacity / 8 {
        part.shrink_to(2 * len, |waiting| waiting.hash);
    }
    Some(waiting)
}

/// Locks a part. It ignores poisoning: if `Eq` of a key panics, the part is unchanged.
fn lock<K>(part: &Part<K>) -> MutexGuard<'_, HashTable<Waiting<K>>> {
    part.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

// === impl Waiting ===

impl<K> Waiting<K> {
    /// Whether its key has this hash, so that it is nearly certainly the timer that is looked for.
    #[inline]
    fn has(&self, hash: u64) -> bool {
        let has = self.hash == hash;
        if has {
            // The entry is fetched while the node is, which has the key.
            self.handle.prefetch();
        }
        has
    }

    /// Lets ticket `generation` count from now on, with `handle` of its timer, unless it comes too
    /// late or too early for that. Leaves the handle of the timer that is not needed in `handle`.
    pub(super) fn rearm(&mut self, generation: u64, handle: &mut Handle) -> Armed {
        let armed = self.generations.arm(generation);
        if armed == Armed::Counts {
            mem::swap(&mut self.handle, handle);
        }
        armed
    }

    /// The timer is due: returns its closure.
    pub(super) fn expire(self) -> (Task, Twin<Node<K>>) {
        self.node.gate.end();
        (self.task, self.node)
    }

    /// Cancels the timer and returns its closure. The caller drops the node, which may drop the key
    /// and so is code of the user.
    pub(super) fn call_off(self) -> (Task, Twin<Node<K>>) {
        self.node.gate.end();
        // If it is too late for this, the thread that runs the ticket finds that it does not count.
        self.handle.cancel();
        (self.task, self.node)
    }

    /// Cancels the timer, and drops its closure and its key.
    pub(super) fn discard(self, panics: &mut Panics) {
        let (task, node) = self.call_off();
        panics.drop(task);
        panics.drop(node);
    }
}
