//! How many timers live and how many entries are dead: the figures for decisions. They are read in
//! O(1), however many threads there are or ever were.
//!
//! Each writer counts on its own counters and publishes the changes here now and then. A thread
//! publishes after each 64 timers that it filed, with each magazine of seats that it fetches or
//! gives away, and when it ends. A shard's owner publishes before each batch that it hands over,
//! and at the end of each turn.
//!
//! *Owner*: any thread.
//!
//! *Invariants*, for these figures against the true numbers while no thread is inside a call:
//! - `living` is too low by at most 128, and too high by at most 64, for each thread that uses the
//!   engine now. (Between two publications, a thread's timers grow by those that it files in an
//!   entry of their own or moves to one, up to 64, and by the seats that its cache loses, up to 64.
//!   They shrink by the seats that the cache gains, up to 64. A thread that ends publishes the
//!   rest, so past threads add nothing.) It is also too high by up to 256 for each shard whose
//!   owner is about to hand a batch over.
//! - `dead` is not too low, except by the magazine that a thread is letting go of right now. It is
//!   too high by the entries that owners have buried in turns that are not over.
//!
//! There may be `M = max(living, 4096)` dead entries; sweeping begins at half of that. A sweep
//! visits living entries, dead entries and kept seats: at most about `1.5 M` entries and the
//! caches. A thread that lets go of a magazine of seats (32 at most) while [`Balance::is_upset`]
//! visits `HELP` entries itself (`shard/sweep.rs`), sixteen for each seat. So a sweep ends before
//! another `M / 8` entries are dead, whatever the owner does meanwhile. (If the owner or another
//! helper has the shard's lock at that moment, that thread visits.) So there are at most `M` dead
//! entries, plus 64 for each thread (the seats in its cache) and 256 for each shard that hands a
//! batch over.
//!
//! *Tested by*: the unit tests below, `src/producer/scheduling/tests.rs`, and `check`, which
//! compares the figures with the counters.

use crate::sync::{CachePadded, Counter, IS_CHECKED, Ordering};

use super::counters::Counters;

/// There may be as many dead entries as living ones, and always this many: so few are not worth a
/// walk. Sweeping begins at half of the maximum.
const DEAD_AT_LEAST: u64 = if IS_CHECKED { 1 } else { 4096 };

/// The numbers of living timers and dead entries. All figures wrap: a figure is below zero for a
/// moment if a burial is published before the dead entries are, and then reads as zero.
#[derive(Debug)]
pub(super) struct Balance {
    engine: CachePadded<Figures>,
    shards: Box<[CachePadded<OfShard>]>,
}

#[derive(Debug)]
struct Figures {
    living: Counter,
    dead: Counter,
}

#[derive(Debug)]
struct OfShard {
    dead: Counter,
    /// Dead entries that were left here since the shard's last sweep began, including those that
    /// were buried without a sweep.
    unswept: Counter,
}

// === impl Balance ===

impl Balance {
    pub(super) fn new(shards: usize) -> Balance {
        let figures = Figures { living: Counter::new(0), dead: Counter::new(0) };
        let of_shard = || OfShard { dead: Counter::new(0), unswept: Counter::new(0) };
        let shards = (0..shards.max(1)).map(|_| CachePadded::new(of_shard())).collect();
        Balance { engine: CachePadded::new(figures), shards }
    }

    /// Publishes what a writer has counted: a thread, or the owner of `shard`.
    pub(super) fn publish(&self, counters: &Counters, shard: Option<u32>) {
        let untold = counters.take_untold();
        if untold.living != 0 {
            // ORDER: Relaxed - the number only says when to look; so do all here.
            self.engine.living.fetch_add(untold.living, Ordering::Relaxed);
        }
        if let Some(shard) = shard.filter(|_| untold.buried != 0) {
            // ORDER: Relaxed - as above.
            self.shards[shard as usize].dead.fetch_sub(untold.buried, Ordering::Relaxed);
            self.engine.dead.fetch_sub(untold.buried, Ordering::Relaxed);
        }
    }

    /// Adds `n` entries of `shard` that were let go and are dead.
    pub(super) fn leave_dead(&self, shard: u32, n: u64) {
        // ORDER: Relaxed - as in `publish`.
        self.shards[shard as usize].dead.fetch_add(n, Ordering::Relaxed);
        self.shards[shard as usize].unswept.fetch_add(n, Ordering::Relaxed);
        self.engine.dead.fetch_add(n, Ordering::Relaxed);
    }

    /// Approximately how many timers are pending.
    pub(super) fn living(&self) -> u64 {
        read(&self.engine.living)
    }

    /// Approximately how many dead entries there are in all shards.
    pub(super) fn dead(&self) -> u64 {
        read(&self.engine.dead)
    }

    /// Approximately how many dead entries there are in one shard.
    pub(super) fn dead_in(&self, shard: u32) -> u64 {
        read(&self.shards[shard as usize].dead)
    }

    /// Whether there are enough dead entries to sweep.
    pub(super) fn is_upset(&self) -> bool {
        self.is_upset_with(self.dead())
    }

    /// Whether there are too many dead entries, `shard` has its share of them (at least one shard
    /// has), and some were left there since its last sweep began.
    pub(super) fn is_upset_by(&self, shard: u32) -> bool {
        let (all, here) = (self.dead(), self.dead_in(shard));
        let is_most = here * self.shards.len() as u64 >= all;
        self.is_upset_with(all) && is_most && self.has_unswept(shard)
    }

    fn is_upset_with(&self, dead: u64) -> bool {
        2 * dead > self.living().max(DEAD_AT_LEAST)
    }

    /// Whether a sweep of `shard` may find more than the last one.
    pub(super) fn has_unswept(&self, shard: u32) -> bool {
        read(&self.shards[shard as usize].unswept) > 0
    }

    /// A sweep of `shard` begins.
    pub(super) fn forget_unswept(&self, shard: u32) {
        // ORDER: Relaxed - as in `publish`.
        self.shards[shard as usize].unswept.store(0, Ordering::Relaxed);
    }

    /// The number of living timers exactly as it was published. It wraps.
    pub(super) fn published_living(&self) -> u64 {
        // ORDER: Relaxed - as in `publish`.
        self.engine.living.load(Ordering::Relaxed)
    }
}

fn read(counter: &Counter) -> u64 {
    // ORDER: Relaxed - as in `publish`.
    (counter.load(Ordering::Relaxed) as i64).max(0) as u64
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{AllCounters, Count};
    use super::*;

    #[test]
    fn what_a_writer_published_counts_once_and_the_rest_not_yet() {
        let (balance, all_counters) = (Balance::new(2), AllCounters::new());
        let (thread, owner) = (all_counters.claim(), all_counters.claim());
        thread.add(Count::Filed, 5);
        assert_eq!(balance.living(), 0);
        (0..2).for_each(|_| balance.publish(&thread, None));
        assert_eq!(balance.living(), 5);
        thread.add(Count::Seated, 2);
        thread.add(Count::Cancelled, 4);
        owner.add(Count::Fired, 1);
        assert_eq!(all_counters.untold_living(), 3_u64.wrapping_neg());
        balance.publish(&thread, None);
        balance.publish(&owner, Some(1));
        assert_eq!((balance.living(), all_counters.untold_living()), (2, 0));
        assert_eq!(balance.living(), all_counters.pending());
    }

    #[test]
    fn who_buries_before_the_dead_were_told_of_leaves_no_debt() {
        let (balance, all_counters) = (Balance::new(2), AllCounters::new());
        let owner = all_counters.claim();
        owner.add(Count::Buried, 3);
        balance.publish(&owner, Some(1));
        assert_eq!((balance.dead(), balance.dead_in(1), balance.is_upset()), (0, 0, false));
        balance.leave_dead(1, 4);
        balance.leave_dead(0, 2);
        assert_eq!([balance.dead(), balance.dead_in(0), balance.dead_in(1)], [3, 2, 1]);
    }

    #[test]
    fn it_is_upset_when_the_dead_are_more_than_half_of_the_living_and_of_4096() {
        let (balance, all_counters) = (Balance::new(2), AllCounters::new());
        let (thread, owner) = (all_counters.claim(), all_counters.claim());
        balance.leave_dead(0, DEAD_AT_LEAST / 2);
        assert!(!balance.is_upset());
        balance.leave_dead(1, 1);
        assert!(balance.is_upset());
        assert_eq!([0, 1].map(|shard| balance.is_upset_by(shard)), [true, false]);
        thread.add(Count::Filed, DEAD_AT_LEAST + 2);
        balance.publish(&thread, None);
        assert!(!balance.is_upset() && !balance.is_upset_by(0));
        owner.add(Count::Fired, 1);
        balance.publish(&owner, Some(0));
        assert!(balance.is_upset() && balance.is_upset_by(0));
        balance.forget_unswept(0);
        assert!(balance.is_upset() && !balance.is_upset_by(0), "a sweep has looked at them");
        owner.add(Count::Buried, 1);
        balance.publish(&owner, Some(0));
        assert!(!balance.is_upset());
    }
}
