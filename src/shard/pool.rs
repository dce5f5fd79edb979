//! What all shards of an engine share: depots, tallies, and the limit on pending timers.

use std::fmt;
use std::ptr::NonNull;

use crate::depot::Depot;
use crate::entry::Entry;
use crate::sync::{AtomicU64, Counter, IS_CHECKED, Ordering, Padded};

use super::Tallies;
use super::seats::{SEATS, Seat};
use super::stock::MAGAZINE;

/// Magazines of seats that wait in the depot at most, per shard.
const SEAT_MAGAZINES: usize = if IS_CHECKED { 2 } else { 64 };

/// Magazines of free memory that wait in the depot at most, per shard.
const MEMORY_MAGAZINES: usize = if IS_CHECKED { 2 } else { 32 };

/// Dead entries are swept when there are more of them than living ones, and more than this: so
/// few are not worth a walk.
const DEAD_AT_LEAST: u64 = if IS_CHECKED { 1 } else { 4096 };

/// Shared by all shards and all threads of an engine.
pub struct Pool<T> {
    /// The engine's number.
    pub engine: u32,
    /// Every writer's counters.
    pub tallies: Tallies,
    pub(super) seats: Depot<Seat<T>>,
    pub(super) memory: Depot<Memory<T>>,
    /// Per shard: dead entries that were left there since its last sweep began, with those that
    /// were buried without one.
    unswept: Box<[Padded<Counter>]>,
    limit: Option<Limit>,
}

/// Memory of an entry that nobody holds.
pub(super) struct Memory<T>(pub(super) NonNull<Entry<T>>);

// SAFETY: it is memory without a payload, held by whoever has the `Memory`.
unsafe impl<T: Send> Send for Memory<T> {}

/// The most timers that may be pending, and how many are.
struct Limit {
    max: u64,
    pending: Padded<AtomicU64>,
}

// === impl Pool ===

impl<T> Pool<T> {
    /// What `shards` shards of engine number `engine` share.
    ///
    /// # Safety
    /// Whoever makes a pool answers for what is built on it: shards, keepers and owners are used
    /// with the pool that they were made with and with no other, an owner with the shard whose
    /// lock it is behind, and only that shard takes from its buckets and closes them. All shards
    /// are closed when the pool is dropped.
    pub unsafe fn new(engine: u32, shards: usize, max_pending: Option<u64>) -> Pool<T> {
        Pool {
            engine,
            tallies: Tallies::new(),
            seats: Depot::new(SEAT_MAGAZINES * shards, SEATS),
            memory: Depot::new(MEMORY_MAGAZINES * shards, MAGAZINE),
            unswept: (0..shards.max(1)).map(|_| Padded(Counter::new(0))).collect(),
            limit: max_pending.map(|max| Limit { max, pending: Padded(AtomicU64::new(0)) }),
        }
    }

    /// Makes room for a timer, if the limit allows.
    #[inline]
    pub(super) fn admit(&self) -> bool {
        let Some(limit) = &self.limit else { return true };
        // ORDER: Relaxed - a number and nothing else; the update is atomic, so the limit is
        // never exceeded, and a refusal is always due to timers that are pending.
        limit
            .pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < limit.max).then_some(n + 1)
            })
            .is_ok()
    }

    /// Gives back the room of `n` timers that ended.
    #[inline]
    pub fn discharge(&self, n: u64) {
        if let Some(limit) = &self.limit {
            // ORDER: Relaxed - as in `admit`.
            limit.pending.fetch_sub(n, Ordering::Relaxed);
        }
    }

    /// Whether dead entries outnumber the living by enough to look for them.
    pub(super) fn wants_sweep(&self) -> bool {
        self.tallies.dead() > self.tallies.pending().max(DEAD_AT_LEAST)
    }

    /// Whether a sweep of `shard` may find something.
    pub fn has_unswept(&self, shard: u32) -> bool {
        // ORDER: Relaxed - a number that says where to look, and no more; here and below.
        self.unswept[shard as usize].load(Ordering::Relaxed) > 0
    }

    /// Whether `shard` ought to sweep although nobody asks: the living may have fired.
    pub(super) fn is_littered(&self, shard: u32) -> bool {
        // ORDER: Relaxed - as in `has_unswept`.
        self.unswept[shard as usize].load(Ordering::Relaxed) > DEAD_AT_LEAST && self.wants_sweep()
    }

    /// Counts a dead entry that is left in `shard`.
    pub(super) fn leave_unswept(&self, shard: u32) {
        // ORDER: Relaxed - as in `has_unswept`.
        self.unswept[shard as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A sweep of `shard` begins.
    pub(super) fn forget_unswept(&self, shard: u32) {
        // ORDER: Relaxed - as in `has_unswept`.
        self.unswept[shard as usize].store(0, Ordering::Relaxed);
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        // The shards are closed, so no list reaches what the depots hold, and nobody who could
        // read it is left.
        for Seat { entry, .. } in self.seats.drain() {
            // SAFETY: a seat in the depot is kept by the depot alone once its list let go.
            unsafe { Entry::free(entry) };
        }
        for Memory(entry) in self.memory.drain() {
            // SAFETY: memory in the depot is held by the depot alone.
            unsafe { Entry::free(entry) };
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("engine", &self.engine).finish_non_exhaustive()
    }
}
