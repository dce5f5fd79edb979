//! How many timers live and how many entries are dead, for decisions: asked in O(1), whatever
//! number of threads there is and ever was.
//!
//! Each writer counts on its tally, and publishes here now and then what changed: a thread after
//! each 64 timers that it filed, with each magazine of seats that it fetches or gives away, and in
//! its end; a shard's owner before each batch that it hands over, and at the end of each turn.
//!
//! *Owner*: anyone.
//!
//! *Invariants*, for what is read here against what is true when nobody is inside a call:
//! - `living` is less than the truth by at most 128, and more by at most 64, for each thread that
//!   uses the engine now. (Between two publications, a thread's timers grow by those that it files
//!   in an entry of their own or moves to one, up to 64, and by the seats that its cache loses, up
//!   to 64; they become fewer by the seats that the cache gains, up to 64. What ended publishes the
//!   rest, so threads of the past add nothing.) It is more by up to 256 for each shard whose owner
//!   is about to hand a batch over.
//! - `dead` is not less than the truth, but for the magazine that a thread is letting go of right
//!   now; it is more by what owners have buried in turns that are not over.
//!
//! Sweeping begins at half of what may be dead, `M = max(living, 4096)`. A sweep visits what
//! lives, what is dead and what seats are kept: at most about `1.5 M` entries and the caches. A
//! thread that lets go of a magazine of seats (32 at most) while [`Balance::is_upset`] visits
//! `HELP` entries itself (`sweep.rs`), sixteen for each seat. So a sweep ends before another `M
//! / 8` are dead, whatever the owner does meanwhile. (Where the owner or another helper has the
//! shard's lock at that moment, that one visits.) So dead entries are at most `M`, and 64 for
//! each thread, which is what its cache holds of seats, and 256 for each shard that hands a
//! batch over.
//!
//! *Tested by*: the unit tests below, and `check`, which holds the figures against the tallies.

use crate::sync::{Counter, IS_CHECKED, Ordering, Padded};

use super::tally::Tally;

/// There may be as many dead entries as living ones, or as this: so few are not worth a walk.
/// Sweeping begins at half of that.
const DEAD_AT_LEAST: u64 = if IS_CHECKED { 1 } else { 4096 };

/// What lives and what is dead. All figures wrap: one that is below zero for a moment, because who
/// buries was faster than who told of the dead, counts as none.
#[derive(Debug)]
pub(super) struct Balance {
    engine: Padded<Figures>,
    shards: Box<[Padded<OfShard>]>,
}

#[derive(Debug)]
struct Figures {
    living: Counter,
    dead: Counter,
}

#[derive(Debug)]
struct OfShard {
    dead: Counter,
    /// Dead entries that were left here since the shard's last sweep began, with those that were
    /// buried without one.
    unswept: Counter,
}

// === impl Balance ===

impl Balance {
    pub(super) fn new(shards: usize) -> Balance {
        let figures = Figures { living: Counter::new(0), dead: Counter::new(0) };
        let of_shard = || OfShard { dead: Counter::new(0), unswept: Counter::new(0) };
        let shards = (0..shards.max(1)).map(|_| Padded(of_shard())).collect();
        Balance { engine: Padded(figures), shards }
    }

    /// A writer publishes what it has counted: a thread, or the owner of `shard`.
    pub(super) fn publish(&self, tally: &Tally, shard: Option<u32>) {
        let untold = tally.take_untold();
        if untold.living != 0 {
            // ORDER: Relaxed - a number that says when to look, and no more; so are all here.
            self.engine.living.fetch_add(untold.living, Ordering::Relaxed);
        }
        if let Some(shard) = shard.filter(|_| untold.buried != 0) {
            // ORDER: Relaxed - as above.
            self.shards[shard as usize].dead.fetch_sub(untold.buried, Ordering::Relaxed);
            self.engine.dead.fetch_sub(untold.buried, Ordering::Relaxed);
        }
    }

    /// Entries of `shard` were let go of and are dead.
    pub(super) fn leave_dead(&self, shard: u32, n: u64) {
        // ORDER: Relaxed - as in `publish`.
        self.shards[shard as usize].dead.fetch_add(n, Ordering::Relaxed);
        self.shards[shard as usize].unswept.fetch_add(n, Ordering::Relaxed);
        self.engine.dead.fetch_add(n, Ordering::Relaxed);
    }

    /// Timers that are pending, about.
    pub(super) fn living(&self) -> u64 {
        read(&self.engine.living)
    }

    /// Dead entries in all shards, about.
    pub(super) fn dead(&self) -> u64 {
        read(&self.engine.dead)
    }

    /// Dead entries in one shard, about.
    pub(super) fn dead_in(&self, shard: u32) -> u64 {
        read(&self.shards[shard as usize].dead)
    }

    /// Whether there are enough dead entries to look for them.
    pub(super) fn is_upset(&self) -> bool {
        self.is_upset_with(self.dead())
    }

    /// Whether there are too many dead entries, and `shard` has its share of them (one shard at
    /// least has), of which some were left there since its last sweep began.
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

    /// The living, exactly as they were published. It wraps.
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
    use super::super::{
        Count, Deferred, Keeper, Pool, Shard, Tallies, WithKeeper, cancel, tallies,
    };
    use super::*;
    use crate::doorbell::{Bell, Doorbell};
    use crate::time::{Geometry, Tick};

    #[test]
    fn what_a_writer_published_counts_once_and_the_rest_not_yet() {
        let (balance, tallies) = (Balance::new(2), Tallies::new());
        let (thread, owner) = (tallies.claim(), tallies.claim());
        thread.add(Count::Filed, 5);
        assert_eq!(balance.living(), 0);
        (0..2).for_each(|_| balance.publish(&thread, None));
        assert_eq!(balance.living(), 5);
        thread.add(Count::Seated, 2);
        thread.add(Count::Cancelled, 4);
        owner.add(Count::Fired, 1);
        assert_eq!(tallies.untold_living(), 3_u64.wrapping_neg());
        balance.publish(&thread, None);
        balance.publish(&owner, Some(1));
        assert_eq!((balance.living(), tallies.untold_living()), (2, 0));
        assert_eq!(balance.living(), tallies.pending());
    }

    #[test]
    fn who_buries_before_the_dead_were_told_of_leaves_no_debt() {
        let (balance, tallies) = (Balance::new(2), Tallies::new());
        let owner = tallies.claim();
        owner.add(Count::Buried, 3);
        balance.publish(&owner, Some(1));
        assert_eq!((balance.dead(), balance.dead_in(1), balance.is_upset()), (0, 0, false));
        balance.leave_dead(1, 4);
        balance.leave_dead(0, 2);
        assert_eq!([balance.dead(), balance.dead_in(0), balance.dead_in(1)], [3, 2, 1]);
    }

    #[test]
    fn it_is_upset_when_the_dead_are_more_than_half_of_the_living_and_of_4096() {
        let (balance, tallies) = (Balance::new(2), Tallies::new());
        let (thread, owner) = (tallies.claim(), tallies.claim());
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

    /// A keeper by itself, and whether a cancel has left something to be done.
    struct Alone<'a>(&'a Pool<()>, &'a mut Keeper<()>, &'a mut bool);

    impl WithKeeper<()> for Alone<'_> {
        fn with_keeper(
            &mut self,
            _engine: u32,
            f: impl FnOnce(&mut Keeper<()>, &Pool<()>) -> Deferred,
        ) -> bool {
            *self.2 |= !f(self.1, self.0).is_nothing();
            true
        }
    }

    fn end(mut keeper: Keeper<()>, pool: &Pool<()>) {
        assert!(keeper.clear(pool).is_nothing());
        keeper.hand_back(pool);
    }

    #[test]
    fn threads_that_come_and_go_one_by_one_leave_no_tallies() {
        // SAFETY: what is built on it keeps to it, and is closed before it goes.
        let pool = unsafe { Pool::<()>::new(0, 1, None) };
        let few = pool.tallies.len();
        (0..10_000).for_each(|_| end(Keeper::new(&pool), &pool));
        assert!(pool.tallies.len() <= few + 8, "{} tallies", pool.tallies.len());
        assert_eq!(pool.balanced_living(), 0);
    }

    #[test]
    fn no_cancel_and_no_sleep_goes_through_the_tallies_whatever_number_of_threads_there_was() {
        const TIMERS: u64 = 20_000;
        // SAFETY: what is built on it keeps to it, and is closed before it goes.
        let pool = unsafe { Pool::new(0, 1, None) };
        let bell = Doorbell::new(Bell::None);
        let shard = Shard::new(0, Geometry::default(), bell, Tick::ZERO, &pool);
        let living: Vec<Keeper<()>> = (0..1000).map(|_| Keeper::new(&pool)).collect();
        let mut keeper = Keeper::new(&pool);
        let due = |i: u64| Tick::new(100_000 + i);
        let schedule = |keeper: &mut Keeper<()>, i| {
            let now = || Tick::ZERO;
            keeper.schedule::<false>(&pool, &shard, due(i), now, (), true).unwrap().0
        };
        let timers: Vec<_> = (0..TIMERS).map(|i| schedule(&mut keeper, i)).collect();
        let visits = tallies::visits::count();
        let mut asked_at = None;
        for (i, entry) in timers.into_iter().enumerate() {
            let mut asks = false;
            // SAFETY: this is its handle, and the keeper is of its engine.
            assert!(unsafe { cancel(entry, Alone(&pool, &mut keeper, &mut asks)) });
            asked_at = asked_at.or(asks.then_some(i as u64 + 1));
        }
        shard.next_wake(&shard.owner().lock().unwrap(), &pool);
        assert_eq!(tallies::visits::count(), visits, "counted by walking");
        // 64 magazines of 32 wait in the depot; what is let go of beyond is dead, and too much when
        // it is half of what is left of the living.
        let asked_at = asked_at.expect("most of them are dead");
        let dead = asked_at - 64 * 32;
        assert!((2 * dead).abs_diff(TIMERS - asked_at) <= 256, "asked with {dead} dead");
        assert_eq!(pool.balanced_living(), 0);
        assert!(shard.close(&mut shard.owner().lock().unwrap(), &pool).is_empty());
        living.into_iter().chain([keeper]).for_each(|keeper| end(keeper, &pool));
        assert_eq!(pool.living(), 0);
    }
}
