//! A group: shards that share a doorbell, and that one thread serves as long as it keeps up.
//!
//! One thread *leads* the group: it sleeps until the first of the shards is due, and serves those
//! that are. Other threads serve single shards beside it while there is more to do than the leader
//! can do in time, or while it is stuck in a turn. They do not sleep by the doorbell.
//!
//! Each shard has a word here that says when it needs its next turn. The thread that serves the
//! shard writes it; a mark stands there meanwhile, and the leader leaves such a shard alone.
//!
//! *Owner*: the holder of a shard's role writes its word; any thread reads it. The doorbell is the
//! leader's (`lead.rs`).
//!
//! *Invariant*: each shard without a thread that serves it is looked at by the leader before it
//! sleeps, and no later than at the time in its word.
//!
//! *Orderings*: DOORBELL, between the leader and a thread that ends a turn beside it, as between
//! the reaper and a producer. Server: write the word, fence, read the doorbell and whether the
//! shard asks for a turn; ring if the word is earlier, or if it asks. Leader: publish in the
//! doorbell, fence, look at the words and who asks. Whichever fence comes first, the other side
//! sees. A producer that asks while a shard is served rings or is found as ever: the leader may
//! find the mark, and then the server's look comes after. (The server may be stuck with another
//! shard next.)
//!
//! *Tested by*: `loom-tests/tests/lead.rs`, `tests/races/engine/groups.rs`,
//! `tests/realtime/groups.rs`.

use std::ops::Range;

use crate::doorbell::Doorbell;
use crate::sync::{Arc, AtomicU64, Counter, Hint, Ordering};
use crate::time::Tick;

use super::StuckThreads;
use super::lead::Lead;

/// In place of a time: a thread serves the shard.
const SERVED: u64 = u64::MAX;

const _: () = assert!(Tick::NEVER.get() < SERVED, "every time comes before the mark");

/// An estimate of how long turns take loses so much with each shorter turn: a turn of half a second
/// is remembered for some 400 turns.
const DECAY: u64 = 64;

/// How long turns may take while a thread of the group is stuck.
const STUCK_NS: u64 = 5_000_000;

/// Shards that share a doorbell.
#[derive(Debug)]
pub struct Group {
    /// Its number among the groups of the engine.
    pub number: usize,
    /// The numbers of its shards in the engine. Here each has an *index*, from zero on.
    pub shards: Range<usize>,
    /// The doorbell of its shards, which is the leader's.
    pub doorbell: Arc<Doorbell>,
    /// Who leads.
    pub lead: Lead,
    /// When each shard needs its next turn, or [`SERVED`].
    next: Box<[AtomicU64]>,
    /// How long the turns of each shard took lately, in nanoseconds.
    takes_ns: Box<[Counter]>,
    /// The thread that serves each shard, or that served it last.
    servers: Box<[Hint]>,
    /// How many threads have lost a shard of the group, and have not come back.
    stuck: Hint,
    /// Those of the engine.
    stuck_threads: Arc<StuckThreads>,
}

// === impl Group ===

impl Group {
    /// Group `number` of the engine, with these of its shards, which all have this doorbell. None
    /// needs a turn before it asks for one. `stuck` has the threads of the engine.
    pub fn new(
        number: usize,
        shards: Range<usize>,
        doorbell: Arc<Doorbell>,
        stuck: Arc<StuckThreads>,
    ) -> Group {
        let next = shards.clone().map(|_| AtomicU64::new(Tick::NEVER.get())).collect();
        let takes_ns = shards.clone().map(|_| Counter::new(0)).collect();
        let servers = shards.clone().map(|_| Hint::new(0)).collect();
        let (lead, stuck_threads) = (Lead::default(), stuck);
        let stuck = Hint::new(0);
        Group { number, shards, doorbell, lead, next, takes_ns, servers, stuck, stuck_threads }
    }

    /// The number in the engine of shard `index`.
    #[inline]
    pub(super) fn shard(&self, index: usize) -> usize {
        self.shards.start + index
    }

    /// The number of the thread that serves shard `index`, or that served it last.
    pub fn server(&self, index: usize) -> usize {
        // ORDER: Relaxed - a number for those who look on; the CAS in `take_lead_from` decides.
        self.servers[index].load(Ordering::Relaxed)
    }

    /// Takes the lead for thread `number` from the thread that serves shard `index`, if that one
    /// has lent it.
    pub fn take_lead_from(&self, index: usize, number: usize) -> bool {
        self.lead.take_from(self.server(index), number)
    }

    /// Thread `number`, which holds the role of shard `index`, serves it from now on.
    #[inline]
    pub(super) fn begin_serving(&self, index: usize, number: usize) {
        // ORDER: Relaxed - a number for those who look on.
        self.servers[index].store(number, Ordering::Relaxed);
        // ORDER(DOORBELL): Relaxed - a leader that still reads a time finds the role taken.
        self.next[index].store(SERVED, Ordering::Relaxed);
        self.doorbell.take_ask(index);
    }

    /// The holder of a shard's role, which is about to give it back, says when the shard needs its
    /// next turn.
    #[inline]
    pub(super) fn end_serving(&self, index: usize, next: Tick) {
        // ORDER(DOORBELL): Relaxed - ordered by the fences of `wake_leader` and of the publication.
        self.next[index].store(next.get(), Ordering::Relaxed);
    }

    /// When shard `index` needs its next turn. `None`: a thread serves it.
    #[inline]
    pub(super) fn next(&self, index: usize) -> Option<Tick> {
        // ORDER(DOORBELL): Relaxed - ordered by the fences of `wake_leader` and of the publication;
        // or the role decides.
        let next = self.next[index].load(Ordering::Relaxed);
        (next != SERVED).then(|| Tick::new(next))
    }

    /// Whether shard `index` needs a turn by `now`, and no thread serves it.
    #[inline]
    pub(super) fn needs_turn(&self, index: usize, now: Tick) -> bool {
        self.next(index).is_some_and(|next| next <= now || self.doorbell.is_asked(index))
    }

    /// Whether a shard that no thread serves asks for a turn.
    pub(super) fn is_asked(&self) -> bool {
        self.doorbell.asked().any(|index| self.next(index).is_some())
    }

    /// When the first of the shards needs a turn that no thread serves.
    pub(super) fn earliest(&self) -> Tick {
        (0..self.next.len()).filter_map(|index| self.next(index)).min().unwrap_or(Tick::NEVER)
    }

    /// A thread that does not lead has given the role of shard `index` back: wakes the leader if
    /// that sleeps for too long, or if it was asked meanwhile and left the shard to the thread.
    pub(super) fn wake_leader(&self, index: usize) {
        let next = self.next(index).unwrap_or(Tick::NEVER);
        // (This fences, whatever the time.)
        let is_hook = self.doorbell.ring_before(next);
        debug_assert!(!is_hook, "a group has threads");
        if self.doorbell.is_asked(index) {
            self.doorbell.ring();
        }
    }

    /// Shard `index` is taken over from its server, which has been stuck in a task since
    /// `since_ns`. To be called before that can learn it.
    pub fn begin_stuck(&self, index: usize, since_ns: u64) {
        // ORDER: Relaxed - a number that says how much care to take.
        self.stuck.fetch_add(1, Ordering::Relaxed);
        self.stuck_threads.begin(self.server(index), self.shard(index), since_ns);
    }

    /// Thread `number`, which has lost a shard, is back. (If it lost it to a stop, it was not noted
    /// as stuck.)
    pub(super) fn end_stuck(&self, number: usize) {
        if self.stuck_threads.end(number) {
            // ORDER: Relaxed - a number that says how much care to take; `begin_stuck` came before
            // this.
            self.stuck.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// How many threads are stuck.
    fn stuck(&self) -> usize {
        // ORDER: Relaxed - a number that says how much care to take.
        self.stuck.load(Ordering::Relaxed)
    }

    /// Notes that a turn of shard `index` has taken so long.
    #[inline]
    pub(super) fn took(&self, index: usize, ns: u64) {
        let takes_ns = &self.takes_ns[index];
        // ORDER: Relaxed - an estimate.
        let before_ns = takes_ns.load(Ordering::Relaxed);
        takes_ns.store(ns.max(before_ns - before_ns / DECAY), Ordering::Relaxed);
    }

    /// How long a turn of shard `index` may take, if that is longer than `patience_ns`. While a
    /// thread is stuck, any turn may.
    #[inline]
    pub(super) fn takes_long(&self, index: usize, patience_ns: u64) -> Option<u64> {
        // ORDER: Relaxed - an estimate.
        let takes_ns = self.takes_ns[index].load(Ordering::Relaxed);
        let least_ns = if self.stuck() > 0 { STUCK_NS } else { 0 };
        Some(takes_ns.max(least_ns)).filter(|&takes_ns| takes_ns > patience_ns)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::doorbell::Bell;

    /// A stop takes a shard from a running task without a note of it.
    #[test]
    fn a_thread_that_lost_its_shard_to_a_stop_was_not_stuck() {
        let threads = Arc::new(StuckThreads::of(2));
        let group = Group::new(0, 0..1, Arc::new(Doorbell::new(Bell::None)), threads);
        group.end_stuck(0);
        assert_eq!(group.stuck(), 0);
        group.begin_stuck(0, 5);
        assert_eq!(group.stuck(), 1);
        group.end_stuck(0);
        assert_eq!(group.stuck(), 0);
    }
}
