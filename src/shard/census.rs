//! The census: what is pending, counted by a reader while everything runs.
//!
//! *Owner*: any thread, under a [`Reader`]: no entry that it may see is given back to the
//! allocator while it looks. Entries may be *recycled* under it, so it trusts nothing but what
//! an entry says at the moment, stops following a chain that left its bucket, and bounds its
//! steps.
//!
//! *Orderings*: BUCKET-READ.

use crate::entry::{Linked, Phase, Reader};
use crate::sync::Ordering;
use crate::time::Tick;

use super::Shard;

/// A timer that was pending when the census came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// When it is due, in ticks since the engine's start.
    pub deadline: Tick,
    /// The level on which it is filed, from 1.
    pub level: u8,
    /// The shard that serves it.
    pub shard: u32,
}

impl<T> Shard<T> {
    /// Calls `f` for what is pending, bucket by bucket, following at most `steps` links.
    ///
    /// Weakly consistent: what is pending from before the census until after it, and is not
    /// re-filed meanwhile, is seen; what comes, goes or moves may be seen or not, or twice.
    pub fn census(&self, _reader: &Reader, mut steps: u64, mut f: impl FnMut(Pending)) {
        let geometry = *self.wheel.geometry();
        for (level, buckets) in self.wheel.existing() {
            for (slot, bucket) in buckets.iter().enumerate() {
                for first in bucket.firsts() {
                    let mut next = first;
                    while !next.is_null() && steps > 0 {
                        steps -= 1;
                        // SAFETY: it was reached from a bucket under the reader's guard, so it
                        // is not given back to the allocator before the guard is gone; all that
                        // is read of it here is atomic.
                        let entry = unsafe { &*next };
                        let (word, filed) = (entry.word(), entry.filed());
                        let place = geometry.place_on(filed.expiration, filed.level.max(1));
                        if filed.level != level || place.slot as usize != slot {
                            break;
                        }
                        if word.phase() == Phase::Pending && word.in_list() {
                            f(Pending { deadline: word.deadline(), level, shard: self.index });
                        }
                        // ORDER(BUCKET-READ): Acquire - pairs with the Release of the link in
                        // `Stack::push`: the node behind it is visible.
                        next = entry.next().load(Ordering::Acquire);
                    }
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Keeper, Pool};
    use super::*;
    use crate::doorbell::{Bell, Doorbell};
    use crate::entry::read;
    use crate::time::Geometry;

    #[test]
    fn a_census_follows_no_more_links_than_it_may() {
        // SAFETY: what is built on it keeps to it, and is closed before it goes.
        let pool = unsafe { Pool::new(0, 1, None) };
        let bell = Doorbell::new(Bell::None);
        let shard = Shard::new(0, Geometry::default(), bell, Tick::ZERO, &pool);
        let mut keeper = Keeper::new(&pool);
        for deadline in [5, 5, 70, 7000] {
            let due = Tick::new(deadline);
            keeper.schedule(&pool, &shard, due, || Tick::ZERO, (), false).unwrap();
        }
        for (steps, seen) in [(0, 0), (1, 1), (3, 3), (4, 4), (5, 4)] {
            let mut count = 0;
            shard.census(&read(), steps, |_| count += 1);
            assert_eq!(count, seen, "in {steps} steps");
        }
        assert_eq!(shard.close(&mut shard.owner().lock().unwrap(), &pool).len(), 4);
        keeper.clear(&pool);
    }
}
