//! Between the engine and the table: enters a timer under its key, moves it, and calls it off.
//!
//! *Owner*: the clones of the timers, by reference count.
//!
//! *Invariants*
//! - A timer is scheduled first and then entered (see `protocol/gate.rs`). It is taken out of the
//!   table first and then cancelled on the engine. So no timer is scheduled or cancelled on the
//!   engine under a lock.
//! - A door owns the table, the table owns nodes, and nodes own the table (not the door). So a
//!   waiting timer keeps no engine alive, and the door's drop calls off the timers that wait.
//!
//! *Tested by*: `tests/keyed.rs`, `tests/keyed_ends.rs`, `tests/keyed_races.rs`.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use crate::dispatch::{Panics, Task, contained};
use crate::engine::{Engine, When};
use crate::error::ScheduleError;
use crate::sync::{Arc, ShardedCount};

use super::ResetError;
use super::node::{ByKey, Counted, Node};
use super::table::{Entered, Move, Rule, Table};
use super::ticket::Ticket;
use super::waiting::{Rearmed, Remains, Taken};

/// The state that clones of the timers share.
pub(super) struct Door<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    table: Arc<Table<K>>,
    /// Each node owns the table through one of these counts.
    counts: ShardedCount<Counted<K>>,
    engine: Engine,
    hasher: S,
}

/// Why a timer was not entered, with its task.
pub(super) enum Refusal {
    Occupied(Task),
    Engine(ScheduleError<Task>),
}

/// The timer that a new one has replaced, if any.
type Replaced<K> = Option<(Task, Remains<K>)>;

// === impl Door ===

impl<K, S> Door<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    pub(super) fn new(engine: Engine, hasher: S) -> Door<K, S> {
        let table = Arc::new(Table::new());
        let counts = ShardedCount::new(|| Counted::new(table.clone()));
        Door { table, counts, engine, hasher }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn table(&self) -> &Table<K> {
        &self.table
    }

    /// The number of waiting timers.
    pub(super) fn waiting(&self) -> usize {
        self.counts.iter().map(|count| count.waiting()).sum()
    }

    /// Calls off each waiting timer for which `is_meant` is true, and drops it outside all locks.
    /// A panic of `is_meant` propagates at once. Panics of tasks and keys go to `panics`.
    pub(super) fn call_off_where(
        &self,
        mut is_meant: impl FnMut(&K) -> bool,
        panics: &mut Panics,
    ) -> usize {
        let mut called_off = 0;
        for node in self.table.nodes() {
            let is_meant = is_meant(&node.key);
            let taken = is_meant.then(|| self.table.take_node(&node)).flatten();
            if let Some(taken) = taken {
                let (task, remains) = taken.call_off();
                called_off += 1;
                panics.drop(task);
                remains.let_go(panics);
            }
            panics.drop(node);
        }
        called_off
    }
}

impl<K, S> Door<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: BuildHasher,
{
    /// Schedules a timer and enters it under a key. Returns the timer that it has replaced.
    pub(super) fn put(
        &self,
        key: K,
        mut when: When,
        mut task: Task,
        rule: Rule,
    ) -> Result<Replaced<K>, Refusal> {
        let hash = self.hasher.hash_one(&key);
        // Without this check, a refusal would cost scheduling and cancelling a timer.
        if rule == Rule::IfAbsent && self.table.contains(&ByKey { key: &key, hash }) {
            return Err(Refusal::Occupied(task));
        }
        let mut node = Node::new(key, hash, self.counts.of(hash).clone());
        loop {
            let ticket = Ticket::new(node.clone(), 0);
            let timer = match self.engine.schedule(when, move || ticket.fire()) {
                Ok(handle) => handle.cancel_on_drop(),
                Err(error) => return Err(Refusal::Engine(error.map(|_| task))),
            };
            (node, task) = match self.table.enter(node, timer, task, rule) {
                Entered::New => return Ok(None),
                Entered::Instead(other) => return Ok(Some(other.call_off())),
                Entered::Occupied(task) => return Err(Refusal::Occupied(task)),
                Entered::Early(node, task) => (node, task),
            };
            // It was due before it was entered.
            node.gate.shut();
            when = When::NOW;
        }
    }

    /// Moves the timer that waits under a key.
    pub(super) fn reset<Q>(&self, key: &Q, when: When) -> Result<(), ResetError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let key = ByKey { key, hash: self.hash(key) };
        // Not under the lock: this may create the thread's cache of the engine.
        let deadline = self.engine.tick_of(when);
        loop {
            let (node, generation) = match self.table.postpone(&key, deadline) {
                None => return Err(ResetError::Absent),
                Some(Move::Done) => {
                    self.engine.count_reset();
                    return Ok(());
                }
                Some(Move::Anew(node, generation)) => (node, generation),
            };
            // The new time is earlier, or the engine has taken the timer out and its task has not
            // started. Schedule another timer, whose ticket then counts instead.
            let ticket = Ticket::new(node.clone(), generation);
            let handle = match self.engine.schedule(when, move || ticket.fire()) {
                Ok(handle) => handle,
                Err(error) if error.is_full() => return Err(ResetError::Full),
                Err(_) => return Err(ResetError::Stopped),
            };
            let (is_moved, not_needed) = match self.table.rearm(&node, generation, handle) {
                Ok(Rearmed::Counts(handle) | Rearmed::Superseded(handle)) => (true, handle),
                // It is due again already, or the timer was taken out: try again with the timer
                // that waits under the key now, if any.
                Ok(Rearmed::Early(handle)) | Err(handle) => (false, handle),
            };
            not_needed.cancel();
            if is_moved {
                return Ok(());
            }
        }
    }

    /// Takes out the timer that waits under a key.
    pub(super) fn take<Q>(&self, key: &Q) -> Option<Taken<K>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.table.take(&ByKey { key, hash: self.hash(key) })
    }

    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }
}

impl<K, S> Drop for Door<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    fn drop(&mut self) {
        // A panic from dropping a waiting timer ends here.
        let mut panics = Panics::none();
        self.call_off_where(|_| true, &mut panics);
        contained(|| panics.go_on());
    }
}

impl<K, S> fmt::Debug for Door<K, S>
where
    K: Eq + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
