//! Where threads help to sweep.

use std::mem;
use std::ops::Range;
use std::ptr::NonNull;

use super::*;
use crate::doorbell::{Bell, Doorbell};
use crate::entry::Entry;
use crate::memory::{Count, alone};
use crate::producer::Producer;
use crate::shard::HELP;
use crate::time::{Geometry, Tick};

/// Entries that die at a time.
const GROUP: usize = 64;

/// What a sweep of the first shard meets, in its order: the newest comes first. `None`: it is dead.
#[derive(Default)]
struct Met {
    ahead: Vec<Option<NonNull<Entry<()>>>>,
    behind: Vec<Option<NonNull<Entry<()>>>>,
    newer: Vec<NonNull<Entry<()>>>,
}

impl Met {
    /// The sweep visits some more. What is dead there is free.
    fn visit(&mut self, visits: usize) {
        let rest = self.ahead.len().saturating_sub(visits);
        self.behind.extend(self.ahead.drain(rest..).rev().flatten().map(Some));
        if rest == 0 {
            let newer = self.newer.drain(..).rev().map(Some);
            self.ahead = newer.chain(mem::take(&mut self.behind)).collect();
            self.ahead.reverse();
        }
    }

    /// One that the sweep has just passed, or at first one that it meets soon.
    fn passed(&mut self) -> Option<NonNull<Entry<()>>> {
        let first = self.ahead.iter_mut().rev().take(2 * HELP);
        let passed = self.behind.iter_mut().rev().take(2 * HELP);
        passed.chain(first).find_map(Option::take)
    }
}

/// All that live are in the first shard, so a sweep of it takes long. Meanwhile some die there,
/// behind the sweep, so that this shard has the most dead, and others where there are the fewest.
/// No owner does anything.
#[test]
fn the_dead_are_bounded_though_one_shard_always_has_the_most() {
    const SHARDS: u32 = 64;
    const LIVING: u64 = 20_000;
    let shared = alone::<()>(SHARDS as usize);
    let shard = |index| {
        let doorbell = Doorbell::new(Bell::None);
        Shard::new(index, Geometry::default(), doorbell, Tick::ZERO, &shared)
    };
    let shards: Vec<Shard<()>> = (0..SHARDS).map(shard).collect();
    let mut producer = Producer::new(&shared, 0);
    let mut file = |shard: &Shard<()>| {
        let (shared, due) = (&shared, Tick::new(30));
        let filed = producer.schedule::<false, false>(shared, shard, due, || Tick::ZERO, (), true);
        filed.expect("the shard is open").0
    };
    let counters = shared.all_counters.claim();
    let mut met = Met::default();
    met.ahead = (0..LIVING).map(|_| Some(file(&shards[0]))).collect();
    let dead_in = |shards: Range<u32>| shards.map(|shard| shared.dead_in(shard)).sum();
    let mut most = 0;
    for _ in 0..8_000 {
        let mut left = [0; SHARDS as usize];
        let others = (1..SHARDS).map(|other| shared.dead_in(other)).max();
        let is_first = shared.dead_in(0) < others.unwrap_or(0) + 4 * GROUP as u64;
        for _ in 0..GROUP {
            let passed = if is_first { met.passed() } else { None };
            let others = 1..SHARDS;
            let fewest = others.min_by_key(|&other| shared.dead_in(other) + left[other as usize]);
            let (index, entry) = match passed {
                Some(entry) => (0, entry),
                None => {
                    let other = fewest.expect("there are others");
                    (other, file(&shards[other as usize]))
                }
            };
            // SAFETY: it is filed, and the test has its handle, which nobody uses again.
            unsafe {
                entry.as_ref().vacate().expect("it is pending");
                assert!(!entry.as_ref().let_go());
            }
            if index == 0 {
                met.newer.push(file(&shards[0]));
            }
            left[index as usize] += 1;
        }
        counters.add(Count::Cancelled, GROUP as u64);
        shared.publish_counts(&counters);
        left.into_iter().zip(0..).for_each(|(n, index)| shared.leave_dead(index, n));
        if shared.has_too_many_dead() {
            let before: u64 = dead_in(1..SHARDS);
            let mut chores = Chores::default();
            let _ = chores.sweep();
            chores.run(&shards, &shared);
            if dead_in(1..SHARDS) == before {
                met.visit(HELP);
            }
        }
        most = most.max(dead_in(0..SHARDS));
    }
    // As `proofs/arithmetic` has it, without seats: each sweep may end amid a thread's visits.
    let lost = u64::from(SHARDS) * HELP as u64;
    assert!(3 * most <= 4 * LIVING + lost, "{most} dead, while {LIVING} live");
    for shard in &shards {
        shard.close(&mut shard.owner().lock().unwrap(), &shared);
    }
    assert!(producer.clear(&shared).is_nothing());
    producer.hand_back(&shared);
    shared.end_counting(&counters, 0);
}
