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
//! - A node is in the table by its main end, which alone reaches what only the lock protects: the
//!   task and the numbers of the tickets.
//! - The thread that took a timer out calls `expire`, `call_off`, `into_task` or `discard`, which
//!   end everything but the task.
//!
//! *Tested by*: `tests/suite/keyed/answers.rs`, `tests/oracles/keyed.rs`,
//! `tests/races/keyed/races.rs`, `tests/races/keyed/foreign.rs`.

use std::mem;
use std::ptr;

use hashbrown::HashTable;

use tickless::CancelOnDrop;
use tickless::internal::Panics;
use tickless::internal::protocol::twin::Twin;
use tickless::internal::sync::{CachePadded, Hint, Mutex, MutexGuard, Ordering, prefetch, thread};

use super::node::{KeyHash, MainNode, Node, SharedNode, Timer, Waits};
use super::running::{Running, SharedRuns, working_on};
use super::waiting::Waiting;

/// The number of parts for each CPU, so that threads rarely meet; and the limits of their number.
/// Many parts are many locks, which the processor's nearest cache does not hold.
const PARTS_PER_CPU: usize = 32;
const PARTS_MIN: usize = 64;
const PARTS_MAX: usize = 256;

const _: () = assert!(PARTS_MIN.is_power_of_two() && PARTS_MAX.is_power_of_two());

/// A table with at most this capacity, which takes a kilobyte, is not shrunk.
const KEPT: usize = 56;

/// The waiting timers.
pub(super) struct Table<K, T: Waits<K>> {
    shared: T::Shared,
    /// A power of two.
    parts: Box<[CachePadded<Part<K, T>>]>,
    /// The bits of a hash below those that choose the part.
    other_bits: u32,
}

/// The timers under some of the keys: those whose hashes share some bits.
struct Part<K, T> {
    // LOCK(KEYED): stopper: hand_in, end; caller: enter, find, take, hand_in, end, take_to_wait,
    // nodes; through: lock.
    timers: Mutex<Timers<K, T>>,
    /// How many timers wait, for those who look. Written under the lock, and beside it: the thread
    /// that has the lock has the line.
    len: Hint,
    layout: Layout,
}

/// Where a table lies in memory. With it, a timer's place is fetched before the lock is taken,
/// while the engine works. It changes when the table grows or shrinks, so it has a line that the
/// lock's holders do not write.
#[repr(align(64))]
struct Layout {
    /// Between the tags and the timers, or zero.
    middle: Hint,
    /// The number of the table's places, less one.
    mask: Hint,
}

/// What a part has behind its lock.
struct Timers<K, T> {
    waiting: HashTable<Waiting<K, T>>,
    /// (Elsewhere in memory, so that the rest fits into one line with the lock.)
    running: Box<Running<K, T>>,
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
pub(super) enum Entered<K, T> {
    /// It waits, in place of another if there was one, which the caller must discard.
    Waits(Option<Waiting<K, T>>),
    /// It was refused, because another waits.
    Occupied(MainNode<K, T>),
    /// It was due already, and the caller must schedule it again.
    Early(MainNode<K, T>),
}

// === impl Table ===

impl<K, T: Waits<K>> Table<K, T> {
    pub(super) fn new(shared: T::Shared) -> Table<K, T> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let parts = cpus.saturating_mul(PARTS_PER_CPU).clamp(PARTS_MIN, PARTS_MAX);
        Table::of(parts.next_power_of_two(), shared)
    }

    /// A table with this number of parts, a power of two.
    fn of(parts: usize, shared: T::Shared) -> Table<K, T> {
        let part = || Part {
            timers: Mutex::new(Timers {
                waiting: HashTable::new(),
                running: Box::new(Running::new()),
            }),
            len: Hint::new(0),
            layout: Layout { middle: Hint::new(0), mask: Hint::new(0) },
        };
        Table {
            shared,
            parts: (0..parts).map(|_| CachePadded::new(part())).collect(),
            other_bits: KeyHash::BITS - parts.ilog2(),
        }
    }

    /// What all that wait here have in common.
    pub(super) fn shared(&self) -> &T::Shared {
        &self.shared
    }

    /// Starts to load the memory in which a timer of this hash waits or will be entered. This
    /// relies on how `hashbrown` lays out a table, but only as a guess: a prefetch touches nothing.
    #[inline]
    pub(super) fn prefetch(&self, hash: KeyHash) {
        let Layout { middle, mask } = &self.part(hash).layout;
        // ORDER: Relaxed - these are hints, and may belong to different tables.
        let (middle, mask) = (middle.load(Ordering::Relaxed), mask.load(Ordering::Relaxed));
        if middle == 0 {
            return;
        }
        let place = hash.for_table() as usize & mask;
        // The tags of timers lie upwards from the middle of a table, and timers downwards.
        prefetch(middle.wrapping_add(place));
        let timer = middle.wrapping_sub((place + 1).wrapping_mul(size_of::<Waiting<K, T>>()));
        prefetch(timer);
    }

    /// Enters a timer that is scheduled on the engine.
    ///
    /// # Panics
    /// If `Eq` of the keys panics. The timer is cancelled then.
    pub(super) fn enter(
        &self,
        node: MainNode<K, T>,
        timer: CancelOnDrop<Timer<K, T>>,
        rule: Rule,
    ) -> Entered<K, T>
    where
        K: Eq,
    {
        // The arguments that are not used are dropped after the lock is released.
        let hash = node.hash;
        let part = self.part(hash);
        let mut timers = part.lock();
        let waiting = &mut timers.waiting;
        let is_it = |other: &Waiting<K, T>| other.has(hash) && other.node.key == node.key;
        let other = waiting.find_mut(hash.for_table(), is_it);
        if other.is_some() && rule == Rule::IfAbsent {
            return Entered::Occupied(node);
        }
        if !node.gate.open() {
            return Entered::Early(node);
        }
        let new = Waiting { node, timer: timer.into_handle() };
        Entered::Waits(match other {
            Some(other) => Some(mem::replace(other, new)),
            None => {
                part.insert(waiting, hash, new);
                None
            }
        })
    }

    /// Calls `look` with the timer of this hash whose node fits `is_it`. `None`: no such timer
    /// waits.
    pub(super) fn find<R>(
        &self,
        hash: KeyHash,
        is_it: impl Fn(&MainNode<K, T>) -> bool,
        look: impl FnOnce(&mut Waiting<K, T>) -> R,
    ) -> Option<R> {
        let mut timers = self.part(hash).lock();
        let is_it = |other: &Waiting<K, T>| other.has(hash) && is_it(&other.node);
        timers.waiting.find_mut(hash.for_table(), is_it).map(look)
    }

    /// Takes out the timer of this hash whose node fits `is_it`, if `may` allows it.
    pub(super) fn take(
        &self,
        hash: KeyHash,
        is_it: impl Fn(&MainNode<K, T>) -> bool,
        may: impl FnOnce(&mut Waiting<K, T>) -> bool,
    ) -> Option<Waiting<K, T>> {
        let part = self.part(hash);
        part.take(&mut part.lock().waiting, hash, is_it, may)
    }

    /// Takes out the timer of a ticket that has come, if the ticket counts. The caller calls `end`
    /// when the timer's task has ended. If the timer is not yet under its key, its maker will find
    /// out.
    pub(super) fn hand_in(
        &self,
        node: &SharedNode<K, T>,
        generation: u64,
    ) -> Option<Waiting<K, T>> {
        let part = self.part(node.hash);
        let mut timers = part.lock();
        if !node.gate.arrive() {
            return None;
        }
        let is_it = |other: &MainNode<K, T>| Twin::ptr_eq(other.twin(), node);
        let is_due =
            |waiting: &mut Waiting<K, T>| waiting.node.own().generations.is_due(generation);
        let taken = part.take(&mut timers.waiting, node.hash, is_it, is_due)?;
        timers.running.begin(node.clone());
        Some(taken)
    }

    /// The task of a timer that was handed in has ended.
    pub(super) fn end(&self, node: &SharedNode<K, T>) {
        // (The lock is released before anything is dropped.)
        let (_node, run) = self.part(node.hash).lock().running.end(node);
        if let Some(run) = run {
            run.end();
        }
    }

    /// Drops the task and the key of a timer that was taken out by `hand_in` or `take_to_wait`.
    pub(super) fn discard(&self, waiting: Waiting<K, T>, panics: &mut Panics) {
        let node = waiting.node.twin().clone();
        working_on(&node, || waiting.discard(panics));
        self.end(&node);
        panics.drop(node);
    }

    /// Takes out the timer of this hash whose node fits `is_it`, as `hand_in` does, and finds the
    /// runs of the tasks for which that is so.
    pub(super) fn take_to_wait(
        &self,
        hash: KeyHash,
        is_it: impl Fn(&Node<K>) -> bool,
    ) -> (Option<Waiting<K, T>>, SharedRuns<K, T>) {
        let part = self.part(hash);
        let Timers { waiting, running } = &mut *part.lock();
        let runs = running.runs(hash, &is_it);
        let taken = part.take(waiting, hash, |node| is_it(node), |_| true);
        taken.iter().for_each(|taken| running.begin(taken.node.twin().clone()));
        (taken, runs)
    }

    /// Returns all waiting nodes. Nodes that are added or removed meanwhile may or may not be
    /// included.
    pub(super) fn nodes(&self) -> Vec<SharedNode<K, T>> {
        let mut nodes = Vec::new();
        for part in &self.parts {
            nodes.extend(part.lock().waiting.iter().map(|waiting| waiting.node.twin().clone()));
        }
        nodes
    }

    /// Returns the number of waiting timers.
    pub(super) fn len(&self) -> usize {
        // ORDER: Relaxed - a number for those who look on.
        self.parts.iter().map(|part| part.len.load(Ordering::Relaxed)).sum()
    }

    fn part(&self, hash: KeyHash) -> &Part<K, T> {
        &self.parts[hash.part(self.other_bits)]
    }
}

// === impl Part ===

impl<K, T: Waits<K>> Part<K, T> {
    /// Locks the part. It ignores poisoning: if `Eq` of a key panics, the part is unchanged.
    fn lock(&self) -> MutexGuard<'_, Timers<K, T>> {
        self.timers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Enters a timer under a key that is free.
    #[inline]
    fn insert(&self, waiting: &mut HashTable<Waiting<K, T>>, hash: KeyHash, new: Waiting<K, T>) {
        let before = waiting.num_buckets();
        waiting.insert_unique(hash.for_table(), new, |other| other.node.hash.for_table());
        if waiting.num_buckets() != before {
            self.note_layout(waiting);
        }
        // ORDER: Relaxed - a number for those who look on; the lock orders its writers.
        self.len.store(waiting.len(), Ordering::Relaxed);
    }

    /// Takes the timer of this hash whose node fits `is_it` out, if `may` allows it.
    #[inline]
    fn take(
        &self,
        waiting: &mut HashTable<Waiting<K, T>>,
        hash: KeyHash,
        is_it: impl Fn(&MainNode<K, T>) -> bool,
        may: impl FnOnce(&mut Waiting<K, T>) -> bool,
    ) -> Option<Waiting<K, T>> {
        let is_it = |other: &Waiting<K, T>| other.has(hash) && is_it(&other.node);
        let mut place = waiting.find_entry(hash.for_table(), is_it).ok()?;
        if !may(place.get_mut()) {
            return None;
        }
        let (taken, _) = place.remove();
        // Release memory after a burst.
        let (len, capacity) = (waiting.len(), waiting.capacity());
        // ORDER: Relaxed - a number for those who look on; the lock orders its writers.
        self.len.store(len, Ordering::Relaxed);
        if capacity > KEPT && len < capacity / 8 {
            waiting.shrink_to(2 * len, |other| other.node.hash.for_table());
            self.note_layout(waiting);
        }
        Some(taken)
    }

    /// Notes where the table lies now.
    #[cold]
    fn note_layout(&self, waiting: &HashTable<Waiting<K, T>>) {
        let any = waiting.iter_buckets().next().and_then(|place| {
            let at = ptr::from_ref(waiting.get_bucket(place)?).addr();
            Some(at + (place + 1) * size_of::<Waiting<K, T>>())
        });
        let middle = any.unwrap_or(0);
        // ORDER: Relaxed - hints: any value will do.
        self.layout.middle.store(middle, Ordering::Relaxed);
        self.layout.mask.store(waiting.num_buckets().wrapping_sub(1), Ordering::Relaxed);
    }
}
