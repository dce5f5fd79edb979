//! The node of a keyed timer (its key, the key's hash, its gate, its task), and its tickets: the
//! engine's payload, without the task. In a [`TtlMap`](super::TtlMap) a value is in the place of
//! the task.
//!
//! The thread that runs a ticket checks in the table whether the ticket still counts for its node.
//! Only then is the task taken out and run. So a cancel wins even if the reaper has taken the timer
//! out already, or if the ticket waits in a queue to be run.
//!
//! *Owner*: shared by reference count (`crates/sync/src/protocol/twin.rs`), between the table and
//! the tickets that the engine holds. The table's end is the main one, which alone has the task, so
//! that another end keeps no task alive.
//!
//! *Invariants*
//! - `Hash` of a key is called once, before anything else happens. The table uses only the number.
//! - A ticket arrives at the gate of its node at most once (KEYED).
//! - If a ticket is dropped without firing (an engine has stopped, and its returned tasks are
//!   dropped), its timer is taken out of the table, so that its key becomes free.
//!
//! *Tested by*: `tests/suite/keyed/answers.rs`, `tests/suite/keyed/keys.rs`,
//! `tests/suite/keyed/ends.rs`, `tests/races/keyed/races.rs`.

use std::marker::PhantomData;

use tickless::internal::protocol::gate::{Gate, Generations};
use tickless::internal::protocol::twin::{Main, Twin};
use tickless::internal::sync::{Arc, CountShard};
use tickless::internal::{Cancel, EngineTicks, HandleTicks, Panics, Runs};
use tickless::{CancelOnDrop, Engine, Handle, ScheduleError, Task, Tick, When};

use super::running::working_on;
use super::table::Table;
use super::waiting::Waiting;

/// What waits under a key until its time has come: a task, or a value.
pub(super) trait Waits<K> {
    /// What all that wait in one table have in common.
    type Shared;

    /// Whether it is over at its time, even if the engine is late: no look-up finds it then.
    const EXPIRES: bool;

    /// Its time has come, and it was taken out of the table. No lock is held.
    fn come(self, key: &K, shared: &Self::Shared);
}

/// A key and the state that belongs to it.
pub(super) struct Node<K> {
    pub(super) key: K,
    pub(super) hash: KeyHash,
    pub(super) gate: Gate,
}

/// The hash of a key, as nodes keep it. So many bits tell the timers of a program apart; where they
/// do not, the keys do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(u32);

/// The part of a node that the table alone has: it is changed only under the lock of the key, so
/// none of it is atomic.
pub(super) struct TableState<T> {
    pub(super) task: T,
    pub(super) generations: Generations,
}

/// The table's end of a node.
pub(super) type MainNode<K, T> = Main<Node<K>, TableState<T>>;

/// Another end of a node.
pub(super) type SharedNode<K, T> = Twin<Node<K>, TableState<T>>;

/// The engine's end of a keyed timer. There is one for each time it was scheduled there.
pub(super) struct Ticket<K, T: Waits<K>> {
    /// `None` after it was handed in.
    node: Option<SharedNode<K, T>>,
    /// The number of this ticket among the node's.
    generation: u64,
    table: CountShard<Arc<Table<K, T>>>,
}

/// The handle of the engine's timer that has a ticket.
pub(super) struct Timer<K, T> {
    /// *Invariant*: its task is a `Ticket<K, T>`.
    handle: Handle,
    ticket: PhantomData<SharedNode<K, T>>,
}

// === impl Waits ===

impl<K> Waits<K> for Task {
    type Shared = ();
    const EXPIRES: bool = false;

    #[inline]
    fn come(self, _key: &K, _shared: &()) {
        self.run();
    }
}

// === impl Node ===

impl<K> Node<K> {
    /// A new node, for the table and for its first ticket.
    #[inline]
    pub(super) fn pair<T>(key: K, hash: KeyHash, task: T) -> (MainNode<K, T>, SharedNode<K, T>) {
        let kept = TableState { task, generations: Generations::default() };
        Main::pair(Node { key, hash, gate: Gate::default() }, kept)
    }
}

// === impl KeyHash ===

impl KeyHash {
    pub(super) const BITS: u32 = u32::BITS;

    /// From a hash whose upper bits are good.
    #[inline]
    pub(super) fn new(hash: u64) -> KeyHash {
        KeyHash((hash >> 32) as u32)
    }

    /// The number of its part, which the bits above the `other_bits` choose.
    #[inline]
    pub(super) fn part(self, other_bits: u32) -> usize {
        self.0 as usize >> other_bits
    }

    /// The hash as the table of a part wants it, with bits for the place at the bottom and bits for
    /// the tag on top.
    #[inline]
    pub(super) fn for_table(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

// === impl Ticket ===

impl<K, T: Waits<K>> Ticket<K, T> {
    #[inline]
    pub(super) fn new(
        node: SharedNode<K, T>,
        generation: u64,
        table: CountShard<Arc<Table<K, T>>>,
    ) -> Ticket<K, T> {
        Ticket { node: Some(node), generation, table }
    }

    /// Takes the timer out of the table, if this ticket counts.
    fn hand_in(&mut self) -> Option<Waiting<K, T>> {
        let node = self.node.take()?;
        // The timer was cancelled too late for the engine.
        if node.gate.is_over() {
            return None;
        }
        self.table.hand_in(&node, self.generation)
    }

    /// The ticket is dropped without firing: frees its key, if the ticket counts.
    #[inline(never)]
    fn give_up(&mut self) {
        let Some(waiting) = self.hand_in() else { return };
        let mut panics = Panics::none();
        self.table.discard(waiting, &mut panics);
        panics.go_on();
    }
}

impl<K, T> Ticket<K, T>
where
    K: Send + Sync + 'static,
    T: Waits<K, Shared: Send + Sync> + Send + 'static,
{
    /// Gives the ticket to an engine. If the engine refuses it, this drops it.
    #[inline]
    pub(super) fn schedule(
        self,
        engine: &Engine,
        when: When,
    ) -> Result<CancelOnDrop<Timer<K, T>>, ScheduleError<()>> {
        match engine.schedule(when, Task::of(self)) {
            Ok(handle) => Ok(Timer { handle, ticket: PhantomData }.guarded()),
            Err(error) => Err(error.map(drop)),
        }
    }
}

impl<K, T> Runs for Ticket<K, T>
where
    K: Send + Sync + 'static,
    T: Waits<K, Shared: Send + Sync> + Send + 'static,
{
    /// The timer is due: runs its task, if this ticket counts.
    fn run(mut self) {
        let Some(waiting) = self.hand_in() else { return };
        let (task, node) = waiting.expire();
        let mut panics = Panics::none();
        let shared = self.table.shared();
        panics.run(|| working_on(&node, || task.come(&node.key, shared)));
        self.table.end(&node);
        // The key is dropped after that, and never while the task's panic unwinds: a second
        // panic would abort the process.
        panics.drop(node);
        panics.go_on();
    }
}

impl<K, T: Waits<K>> Drop for Ticket<K, T> {
    #[inline]
    fn drop(&mut self) {
        // Usually it was handed in, or taken back by a cancel.
        if self.node.is_some() {
            self.give_up();
        }
    }
}

// === impl Timer ===

impl<K, T: Waits<K>> Timer<K, T> {
    /// As `Engine::reset_in_place`.
    #[inline]
    pub(super) fn reset_in_place(&mut self, engine: &Engine, due: Tick, now_ns: u64) -> bool {
        engine.reset_in_place(&mut self.handle, due, now_ns)
    }

    /// When it is due.
    pub(super) fn due(&self) -> Tick {
        self.handle.due()
    }

    /// Starts to load the engine's entry.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.handle.prefetch();
    }

    /// Cancels the timer, whose node is over. Returns the ticket's end of the node, if it is not
    /// too late.
    #[inline]
    pub(super) fn take(self) -> Option<SharedNode<K, T>> {
        let task = self.handle.take()?;
        // SAFETY: the task is a ticket (see the field).
        let mut ticket = unsafe { task.into_value::<Ticket<K, T>>() };
        ticket.node.take()
    }
}

impl<K, T: Waits<K>> Cancel for Timer<K, T> {
    fn cancel(self) {
        drop(self.take());
    }
}
