//! The balance: about how many timers live, and how many entries are dead. Decisions rest on these
//! two figures, which are read in O(1), however many threads there are or ever were:
//!
//! | decision | made in |
//! |---|---|
//! | whether a sweep begins, and in which shard | `shard/sweep.rs`, `producer/deferred.rs` |
//! | how many seats the depots take | `shared.rs` |
//! | whether timers are so few that each gets the bucket of its tick | `Shard::place` |
//! | whether a reaper wakes up ahead of a coarse bucket | `shard/ahead.rs` |
//!
//! Each writer counts on counters of its own, and publishes the changes here now and then:
//! - a thread, after each 64 timers that it filed, and when it ends;
//! - a thread, with each magazine of seats that it fetches or gives away, if it has 1024 changes,
//!   or so many that, times the writers, they are a sixteenth of the living timers. (Threads that
//!   cancel in bursts all write here.)
//! - a shard's owner, after each full batch that it hands over, after the rest that a takeover
//!   left, and at the end of each turn.
//!
//! `Balance` says how far off the figures are.
//!
//! What follows for the dead, while a shard is served: the owner sweeps when half as many are dead
//! as live (or 2048), and all of its shard when nothing is due. While something is always due, it
//! visits an entry with each batch for every fourth that died since its sweep began, or 1024. If
//! `r` die for each batch and `n` are filed, a sweep takes no more than `sqrt(8 n / r)` batches
//! then, in which `sqrt(8 n r)` die. A shard that has no turn is not swept: what is cancelled there
//! stays dead until it has one.
//!
//! *Owner*: any thread.
//!
//! *Tested by*: the unit tests below, those of `crates/core/src/reaper/turn.rs`,
//! `crates/core/src/producer/scheduling/tests.rs`, and `check`, which compares the figures with the
//! counters.

use crate::sync::{AtomicBool, CachePadded, Counter, IS_CHECKED, Ordering};

use super::counters::{Changes, Counters};

/// Sweeping begins when the dead are more than half of the living, or of this number if that is
/// more: so few are not worth a walk.
pub const DEAD_AT_LEAST: u64 = if IS_CHECKED { 1 } else { 4096 };

/// Living timers for each change that all writers together may keep to themselves, and the changes
/// that one of them publishes in any case.
const LIVING_PER_UNPUBLISHED: u64 = 16;
const MOST_UNPUBLISHED: u64 = 1024;

/// The numbers of living timers and dead entries. All figures wrap: a figure is below zero for a
/// moment if a burial is published before the dead entries are, and then reads as zero.
///
/// *Invariants*, while no thread is inside a call. `living` differs from the true number by at most
/// the sum of these:
/// - for each thread that uses the engine now, 128 too low or 64 too high. Between two
///   publications, a thread's timers grow by those that it files in an entry of their own or moves
///   to one (64 at most), and by the seats that it loses (64). They shrink by the seats that it
///   gains (64). A thread that ends publishes the rest, so past threads add nothing;
/// - for each shard whose owner hands a batch over, 256 too high;
/// - a sixteenth of what lived when the threads last looked, either way, and 1024 for each thread
///   at most.
///
/// `dead` is too low by no more than the magazine that a thread is letting go of right now. It is
/// too high by the entries that owners have buried since they last published.
#[derive(Debug)]
pub struct Balance {
    /// Fewer timers than this are few; and whether so few were pending when a writer published
    /// last.
    few: u64,
    has_few: AtomicBool,
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
        let has_few = AtomicBool::new(false);
        Balance { few: 0, has_few, engine: CachePadded::new(figures), shards }
    }

    /// Sets how many timers are few.
    pub(super) fn set_few(&mut self, few: u64) {
        (self.few, self.has_few) = (few, AtomicBool::new(few > 0));
    }

    /// Whether few timers are pending, approximately.
    #[inline]
    pub(crate) fn has_few(&self) -> bool {
        // ORDER: Relaxed - a stale value costs a wake-up.
        self.has_few.load(Ordering::Relaxed)
    }

    /// Notes how many timers are pending. Seldom writes, so that what others read of it stays in
    /// their caches.
    fn note_living(&self, living: u64) {
        let has_few = living < self.few;
        if has_few != self.has_few() {
            // ORDER: Relaxed - a stale value costs a wake-up.
            self.has_few.store(has_few, Ordering::Relaxed);
        }
    }

    fn of(&self, shard: u32) -> &OfShard {
        &self.shards[shard as usize]
    }

    /// Publishes what a writer has counted. Returns the dead entries that it buried and had not
    /// published: only an owner buries.
    pub(crate) fn publish_counts(&self, counters: &Counters) -> u64 {
        let unpublished = counters.unpublished();
        self.publish_all(counters, unpublished);
        unpublished.buried
    }

    fn publish_all(&self, counters: &Counters, unpublished: Changes) {
        counters.note_published(unpublished);
        if unpublished.living != 0 {
            // ORDER: Relaxed - the number only says when to look; so do all here.
            self.engine.living.fetch_add(unpublished.living, Ordering::Relaxed);
            self.note_living(self.living());
        }
    }

    /// Publishes what a thread has counted, one of so many writers, if that is much.
    pub(super) fn publish_if_much(&self, counters: &Counters, writers: u64) {
        let unpublished = counters.unpublished();
        let changes = (unpublished.living as i64).unsigned_abs();
        let all = changes * writers;
        if changes >= MOST_UNPUBLISHED || all * LIVING_PER_UNPUBLISHED >= self.living() {
            self.publish_all(counters, unpublished);
        }
    }

    /// Publishes what the owner of `shard` has counted.
    pub(crate) fn publish_owner(&self, counters: &Counters, shard: u32) {
        let buried = self.publish_counts(counters);
        if buried != 0 {
            // ORDER: Relaxed - the number only says when to look.
            self.of(shard).dead.fetch_sub(buried, Ordering::Relaxed);
            self.engine.dead.fetch_sub(buried, Ordering::Relaxed);
        }
    }

    /// Counts `n` entries of `shard` that were let go and are dead.
    pub(crate) fn leave_dead(&self, shard: u32, n: u64) {
        // ORDER: Relaxed - the number only says when to look.
        self.of(shard).dead.fetch_add(n, Ordering::Relaxed);
        self.of(shard).unswept.fetch_add(n, Ordering::Relaxed);
        self.engine.dead.fetch_add(n, Ordering::Relaxed);
    }

    /// Approximately how many timers are pending in the engine. O(1), as all that follow.
    pub fn living(&self) -> u64 {
        read(&self.engine.living)
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Approximately how many dead entries there are in `shard`.
    pub fn dead_in(&self, shard: u32) -> u64 {
        read(&self.of(shard).dead)
    }

    /// Whether the engine has enough dead entries for a sweep to begin: more than half the number
    /// of living timers, and more than 2048. The header tells how stale this may be.
    #[inline]
    pub fn has_too_many_dead(&self) -> bool {
        are_too_many(read(&self.engine.dead), self.living())
    }

    /// Whether that holds, `shard` has its share of them (at least one shard has), and some were
    /// left there since its last sweep began.
    #[inline]
    pub fn is_littered(&self, shard: u32) -> bool {
        self.has_too_many_dead()
            && are_a_share(self.dead_in(shard), self.shards(), read(&self.engine.dead))
            && self.unswept(shard) > 0
    }

    /// Approximately how many were left dead in `shard` since its last sweep began: what a sweep
    /// may find that the last one has not.
    pub fn unswept(&self, shard: u32) -> u64 {
        read(&self.of(shard).unswept)
    }

    /// A sweep of `shard` begins.
    pub(crate) fn forget_unswept(&self, shard: u32) {
        // ORDER: Relaxed - the number only says when to look.
        self.of(shard).unswept.store(0, Ordering::Relaxed);
    }

    /// The number of living timers that was published, for checks. It may be below zero, and wraps.
    pub(super) fn published_living(&self) -> u64 {
        // ORDER: Relaxed - the number only says when to look.
        self.engine.living.load(Ordering::Relaxed)
    }
}

/// Whether so many dead entries are worth a sweep: more than half of the maximum.
#[inline]
pub const fn are_too_many(dead: u64, living: u64) -> bool {
    let least = if living > DEAD_AT_LEAST { living } else { DEAD_AT_LEAST };
    2 * dead > least
}

/// Whether so many of the dead are at least the share of one of so many shards.
#[inline]
pub const fn are_a_share(dead_in_shard: u64, shards: usize, dead: u64) -> bool {
    dead_in_shard * shards as u64 >= dead
}

fn read(counter: &Counter) -> u64 {
    // ORDER: Relaxed - the number only says when to look.
    (counter.load(Ordering::Relaxed) as i64).max(0) as u64
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::{Count, Shared, alone};
    use super::*;

    fn dead(shared: &Shared<u32>) -> u64 {
        read(&shared.balance.engine.dead)
    }

    #[test]
    fn what_a_writer_published_counts_once_and_the_rest_not_yet() {
        let shared = alone::<u32>(2);
        let (thread, owner) = (shared.all_counters.claim(), shared.all_counters.claim());
        thread.add(Count::Filed, 5);
        assert_eq!(shared.balance.living(), 0);
        (0..2).for_each(|_| _ = shared.balance.publish_counts(&thread));
        assert_eq!(shared.balance.living(), 5);
        thread.add(Count::Seated, 2);
        thread.add(Count::Cancelled, 4);
        owner.add(Count::Fired, 1);
        assert_eq!(shared.all_counters.unpublished_living(), 3_u64.wrapping_neg());
        shared.balance.publish_counts(&thread);
        shared.balance.publish_owner(&owner, 1);
        assert_eq!((shared.balance.living(), shared.all_counters.unpublished_living()), (2, 0));
        assert_eq!(shared.balance.living(), shared.all_counters.pending());
    }

    #[test]
    fn a_thread_keeps_to_itself_what_is_little_beside_what_lives() {
        let shared = alone::<u32>(2);
        let [thread, other] = [(); 2].map(|()| shared.all_counters.claim());
        thread.add(Count::Filed, 3_200);
        shared.balance.publish_if_much(&thread, shared.all_counters.writers());
        assert_eq!(shared.balance.living(), 3_200);
        // A sixteenth for two.
        thread.add(Count::Cancelled, 99);
        other.add(Count::Filed, 99);
        [&thread, &other].into_iter().for_each(|counters| {
            shared.balance.publish_if_much(counters, shared.all_counters.writers())
        });
        assert_eq!(shared.balance.living(), 3_200);
        thread.add(Count::Cancelled, 1);
        other.add(Count::Filed, 1);
        shared.balance.publish_if_much(&thread, shared.all_counters.writers());
        assert_eq!(shared.balance.living(), 3_100);
        shared.balance.publish_if_much(&other, shared.all_counters.writers());
        assert_eq!(shared.balance.living(), 3_200);
        // But no more than a number, however many live.
        thread.add(Count::Filed, 1_000_000);
        shared.balance.publish_counts(&thread);
        other.add(Count::Cancelled, MOST_UNPUBLISHED - 1);
        shared.balance.publish_if_much(&other, shared.all_counters.writers());
        assert_eq!(shared.balance.living(), 1_003_200);
        other.add(Count::Cancelled, 1);
        shared.balance.publish_if_much(&other, shared.all_counters.writers());
        assert_eq!(shared.balance.living(), 1_003_200 - MOST_UNPUBLISHED);
    }

    #[test]
    fn who_buries_before_the_dead_were_told_of_leaves_no_debt() {
        let shared = alone::<u32>(2);
        let owner = shared.all_counters.claim();
        owner.add(Count::Buried, 3);
        shared.balance.publish_owner(&owner, 1);
        let now = (dead(&shared), shared.balance.dead_in(1), shared.balance.has_too_many_dead());
        assert_eq!(now, (0, 0, false));
        shared.balance.leave_dead(1, 4);
        shared.balance.leave_dead(0, 2);
        assert_eq!(
            [dead(&shared), shared.balance.dead_in(0), shared.balance.dead_in(1)],
            [3, 2, 1]
        );
    }

    #[test]
    fn a_sweep_is_due_when_the_dead_are_more_than_half_of_the_living_and_of_4096() {
        let shared = alone::<u32>(2);
        let (thread, owner) = (shared.all_counters.claim(), shared.all_counters.claim());
        shared.balance.leave_dead(0, DEAD_AT_LEAST / 2);
        assert!(!shared.balance.has_too_many_dead());
        shared.balance.leave_dead(1, 1);
        assert!(shared.balance.has_too_many_dead());
        assert_eq!([0, 1].map(|shard| shared.balance.is_littered(shard)), [true, false]);
        thread.add(Count::Filed, DEAD_AT_LEAST + 2);
        shared.balance.publish_counts(&thread);
        assert!(!shared.balance.has_too_many_dead() && !shared.balance.is_littered(0));
        owner.add(Count::Fired, 1);
        shared.balance.publish_owner(&owner, 0);
        assert!(shared.balance.has_too_many_dead() && shared.balance.is_littered(0));
        shared.balance.forget_unswept(0);
        assert!(
            shared.balance.has_too_many_dead() && !shared.balance.is_littered(0),
            "a sweep has looked at them"
        );
        owner.add(Count::Buried, 1);
        shared.balance.publish_owner(&owner, 0);
        assert!(!shared.balance.has_too_many_dead());
    }
}
