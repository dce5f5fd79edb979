//! The door to a table of keyed timers: what `KeyedTimers` and `TtlMap` have in common.
//!
//! *Owner*: the clones of the timers or of the map, by reference count.
//!
//! *Invariants*
//! - A timer is scheduled first and then entered (see `crates/sync/src/protocol/gate.rs`). It is
//!   taken out of the table first and then cancelled on the engine. So no timer is scheduled or
//!   cancelled on the engine under a lock.
//! - A door owns the table, the table owns nodes, and nodes own the table (not the door). So a
//!   waiting timer keeps no engine alive, and the door's drop calls off the timers that wait.
//! - What callers pass to look at a timer under its lock (`look`, `may`) is code of this module. It
//!   calls nothing of the user.
//!
//! *Tested by*: `tests/suite/keyed/answers.rs`, `tests/suite/keyed/ends.rs`,
//! `tests/races/keyed/races.rs`, `tests/suite/ttl/steps.rs`.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::mem;
use std::time::{Duration, Instant};

use tickless::internal::protocol::gate::Armed;
use tickless::internal::protocol::twin::Twin;
use tickless::internal::sync::{Arc, CountShard, ShardedCount, spread};
use tickless::internal::{Cancel, EngineRef, EngineTicks, Panics};
use tickless::{Engine, Refused, When};

use super::node::{KeyHash, MainNode, Node, SharedNode, Ticket, Waits};
use super::table::{Entered, Rule, Table};
use super::waiting::{Waiting, after};
use super::{IfAbsentReason, ResetError};

/// The state that clones share.
pub(super) struct Door<K, T: Waits<K>, S> {
    pub(super) table: Arc<Table<K, T>>,
    /// Each ticket owns the table through one of these counts.
    counts: ShardedCount<Arc<Table<K, T>>>,
    pub(super) engine: Engine,
    hasher: S,
}

// === impl Door ===

impl<K, T: Waits<K>, S> Door<K, T, S> {
    pub(super) fn new(engine: &Engine, hasher: S, shared: T::Shared) -> Door<K, T, S> {
        let table = Arc::new(Table::new(shared));
        let counts = ShardedCount::new(|| table.clone());
        Door { table, counts, engine: engine.clone(), hasher }
    }

    /// A reference to the table, for a ticket.
    fn count(&self) -> CountShard<Arc<Table<K, T>>> {
        self.counts.own().clone()
    }

    /// Takes out each waiting timer for which `is_meant` is true, and ends it by `end`, outside all
    /// locks. `is_meant` is also passed what `see` returned of the node just before; with `None`
    /// the timer stays. Returns how many there were, and the panics of `is_meant`, tasks and keys.
    /// After a panic of `is_meant` the others stay.
    pub(super) fn take_where<R>(
        &self,
        see: impl Fn(&SharedNode<K, T>) -> Option<R>,
        mut is_meant: impl FnMut(&K, &R) -> bool,
        mut end: impl FnMut(Waiting<K, T>, &mut Panics),
    ) -> (usize, Panics) {
        let (mut taken_out, mut panics, mut goes_on) = (0, Panics::none(), true);
        for node in self.table.nodes() {
            if let Some(seen) = goes_on.then(|| see(&node)).flatten() {
                let is_meant = panics.run(|| is_meant(&node.key, &seen));
                panics.drop(seen);
                goes_on = is_meant.is_some();
                let taken = match is_meant {
                    Some(true) => self.table.take(node.hash, is_node(&node), |_| true),
                    _ => None,
                };
                if let Some(waiting) = taken {
                    taken_out += 1;
                    end(waiting, &mut panics);
                }
            }
            // It may be the last end, which drops the key.
            panics.drop(node);
        }
        (taken_out, panics)
    }

    /// The same for all for whose keys `is_meant` is true, which are dropped.
    pub(super) fn call_off_where(&self, mut is_meant: impl FnMut(&K) -> bool) -> (usize, Panics) {
        self.take_where(|_| Some(()), |key, ()| is_meant(key), Waiting::discard)
    }

    /// Takes out and drops all that wait. Returns how many there were.
    ///
    /// # Panics
    /// Propagates the first panic of a drop at the end.
    pub(super) fn clear(&self) -> usize {
        let (dropped, panics) = self.call_off_where(|_| true);
        panics.go_on();
        dropped
    }

    /// Calls `look` with the key of each timer that waits, without a lock.
    pub(super) fn for_each_key(&self, mut look: impl FnMut(&K)) {
        self.table.nodes().iter().for_each(|node| look(&node.key));
    }

    /// Calls `look` with the timer of this node, under its lock, if it still waits.
    pub(super) fn find_node<R>(
        &self,
        node: &SharedNode<K, T>,
        look: impl FnOnce(&mut Waiting<K, T>) -> R,
    ) -> Option<R> {
        self.table.find(node.hash, is_node(node), look)
    }
}

impl<K, T: Waits<K>, S: BuildHasher> Door<K, T, S> {
    /// Returns the hash of a key, as the table uses it.
    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> KeyHash {
        KeyHash::new(spread(self.hasher.hash_one(key)))
    }

    /// Returns the time by the thread's clock, if `lives` needs it. Not under a lock: this may
    /// create the thread's cache of the engine.
    #[inline]
    fn glance_ns(&self) -> u64 {
        if T::EXPIRES { self.engine.thread_now_ns() } else { 0 }
    }

    /// Whether the timer can still be found, by a thread whose clock shows `now_ns`.
    #[inline]
    fn lives(&self, waiting: &Waiting<K, T>, now_ns: u64) -> bool {
        !T::EXPIRES || !self.engine.has_reached(waiting.timer.due(), now_ns)
    }

    /// Calls `look` with the timer that waits under `key`, under its lock.
    pub(super) fn find<Q, R>(
        &self,
        key: &Q,
        look: impl FnOnce(&mut Waiting<K, T>) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_it = |node: &MainNode<K, T>| *node.key.borrow() == *key;
        let hash = self.hash(key);
        if T::EXPIRES {
            // Fetched while the clock is read.
            self.table.prefetch(hash);
        }
        let now_ns = self.glance_ns();
        let look = |waiting: &mut Waiting<K, T>| self.lives(waiting, now_ns).then(|| look(waiting));
        self.table.find(hash, is_it, look).flatten()
    }

    /// Returns the deadline of the timer that waits under `key`. `None`: none waits, or it is never
    /// due.
    pub(super) fn deadline<Q>(&self, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.engine.instant_of(self.find(key, |waiting| waiting.timer.due())?)
    }

    /// Cancels the timer that waits under `key`, and returns its task.
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key, or of the drop of the key.
    pub(super) fn take<Q>(&self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_it = |node: &MainNode<K, T>| *node.key.borrow() == *key;
        let hash = self.hash(key);
        // Fetched while the clock is read.
        self.table.prefetch(hash);
        let now_ns = self.glance_ns();
        let taken = self.table.take(hash, is_it, |waiting| self.lives(waiting, now_ns))?;
        Some(taken.into_task())
    }
}

impl<K, T, S> Door<K, T, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    T: Waits<K, Shared: Send + Sync> + Send + 'static,
    S: BuildHasher,
{
    /// Schedules a timer and enters it under a key. Returns the timer that it has replaced.
    pub(super) fn put(
        &self,
        key: K,
        mut when: When,
        task: T,
        rule: Rule,
    ) -> Result<Option<Waiting<K, T>>, Refused<IfAbsentReason, T>> {
        let Door { table, engine, .. } = self;
        let hash = self.hash(&key);
        // Without this check, a refusal would cost scheduling and cancelling a timer.
        let is_it = |node: &MainNode<K, T>| node.key == key;
        if rule == Rule::IfAbsent && table.find(hash, is_it, |_| ()).is_some() {
            return Err(Refused::new(IfAbsentReason::Occupied, after(|| drop(key), task)));
        }
        table.prefetch(hash);
        let (mut node, mut other) = Node::pair(key, hash, task);
        let (reason, node) = loop {
            let ticket = Ticket::new(other, 0, self.count());
            let timer = match ticket.schedule(engine, when) {
                Ok(timer) => timer,
                Err(error) if error.is_full() => break (IfAbsentReason::Full, node),
                Err(_) => break (IfAbsentReason::Stopped, node),
            };
            node = match table.enter(node, timer, rule) {
                Entered::Waits(replaced) => return Ok(replaced),
                Entered::Occupied(node) => break (IfAbsentReason::Occupied, node),
                Entered::Early(node) => node,
            };
            // It was due before it was entered.
            engine.count_rearmed();
            node.gate.shut();
            other = node.twin().clone();
            when = When::after(Duration::ZERO);
        };
        let (kept, node) = node.split();
        Err(Refused::new(reason, after(|| drop(node), kept.task)))
    }

    /// Moves the timer that waits under `key`, and returns what `look` returns of it, under the
    /// lock.
    ///
    /// # Errors
    /// No timer waits under the key; or the engine has refused a new timer, and the old one waits
    /// as before.
    ///
    /// # Panics
    /// Propagates a panic of `Hash` or `Eq` of a key. Nothing has changed then.
    pub(super) fn reset<Q, R>(
        &self,
        key: &Q,
        when: When,
        look: impl Fn(&mut Waiting<K, T>) -> R,
    ) -> Result<R, ResetError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Door { table, engine, .. } = self;
        let hash = self.hash(key);
        // Fetched while the clock is read.
        table.prefetch(hash);
        loop {
            // Not under the lock: this may create the thread's cache of the engine. In each round:
            // what waits under the key by now may be over at a time that has come since.
            let (due, now_ns) = engine.due_of(when).ok_or(ResetError::Stopped)?;
            let reset_in_place = |waiting: &mut Waiting<K, T>| {
                let seen = self.lives(waiting, now_ns).then(|| look(waiting))?;
                if waiting.timer.reset_in_place(engine, due, now_ns) {
                    return Some((seen, None));
                }
                let generation = waiting.node.own().generations.issue();
                Some((seen, Some((waiting.node.twin().clone(), generation))))
            };
            let is_it = |node: &MainNode<K, T>| *node.key.borrow() == *key;
            let found = table.find(hash, is_it, reset_in_place).flatten();
            let (seen, anew) = found.ok_or(ResetError::Absent)?;
            let Some((node, generation)) = anew else {
                engine.count_reset();
                return Ok(seen);
            };
            // The new time is earlier, or the timer's bucket is due, or the engine has taken the
            // timer out and its task has not started. Schedule another timer, whose ticket then
            // counts instead.
            let ticket = Ticket::new(node.clone(), generation, self.count());
            let mut timer = match ticket.schedule(engine, when) {
                Ok(timer) => timer.into_handle(),
                Err(error) if error.is_full() => return Err(ResetError::Full),
                Err(_) => return Err(ResetError::Stopped),
            };
            let rearm = |waiting: &mut Waiting<K, T>| waiting.rearm(generation, &mut timer);
            let armed = self.find_node(&node, rearm);
            // The timer that is not needed: the old one, or the new one.
            timer.cancel();
            if matches!(armed, Some(Armed::Counts | Armed::Superseded)) {
                return Ok(seen);
            }
            // It is due again already, or the timer was taken out: try again with the timer that
            // waits under the key now, if any.
            if armed == Some(Armed::Early) {
                engine.count_rearmed();
            }
        }
    }
}

impl<K, T: Waits<K>, S> Drop for Door<K, T, S> {
    fn drop(&mut self) {
        if EngineRef::new(&self.engine).is_inherited() {
            // In a child, a lock may be held for ever. The child's copy stays as it is.
            return mem::forget(self.table.clone());
        }
        // A panic from dropping a waiting timer ends here.
        drop(self.call_off_where(|_| true));
    }
}

/// Whether another end is one of this node.
fn is_node<K, T>(node: &SharedNode<K, T>) -> impl Fn(&MainNode<K, T>) -> bool {
    move |other| Twin::ptr_eq(other.twin(), node)
}
