//! Where threads help to sweep.

use std::mem;
use std::ptr::NonNull;

use super::*;
use crate::doorbell::{Bell, Doorbell};
use crate::entry::Entry;
use crate::memory::{Count, Counters, alone};
use crate::producer::Producer;
use crate::shard::HELP;
use crate::sync::Arc;
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

/// Shards of which no owner does anything, and a thread that files and lets go.
struct Shards {
    // They go before the shared: what they give up in their end goes there.
    shards: Vec<Shard<()>>,
    producer: Producer<()>,
    counters: Arc<Counters>,
    shared: Shared<()>,
}

impl Shards {
    fn new(shards: u32) -> Shards {
        let shared = alone(shards as usize);
        let shard = |index| {
            let doorbell = Doorbell::new(Bell::None);
            Shard::new(index, Geometry::default(), doorbell, Tick::ZERO, &shared)
        };
        Shards {
            shards: (0..shards).map(shard).collect(),
            producer: Producer::new(&shared, 0),
            counters: shared.all_counters.claim(),
            shared,
        }
    }

    fn file(&mut self, shard: u32) -> NonNull<Entry<()>> {
        let Shards { shards, producer, shared, .. } = self;
        let (shard, due, now) = (&shards[shard as usize], Tick::new(30), Tick::ZERO);
        // SAFETY: nothing is kept.
        let filed = unsafe {
            producer.schedule::<false, false>(shared, shard, due, || now, || now, (), true, |_| ())
        };
        filed.expect("the shard is open").0
    }

    fn let_die(&self, entry: NonNull<Entry<()>>) {
        // SAFETY: it is filed, and the test has its handle, which nobody uses again.
        unsafe {
            entry.as_ref().vacate().expect("it is pending");
            assert!(!Entry::let_go(entry));
            self.shared.leave_dead(entry.as_ref().shard(), 1);
        }
        self.counters.add(Count::Cancelled, 1);
    }

    /// What a thread does that has let go of some. Returns whether it has swept the first shard.
    fn help(&self) -> bool {
        self.shared.publish_counts(&self.counters);
        if !self.shared.has_too_many_dead() {
            return false;
        }
        let before = self.dead_beside_the_first();
        let mut chores = Chores::default();
        let _ = chores.sweep();
        chores.run(&self.shards, &self.shared);
        self.dead_beside_the_first() == before
    }

    fn dead(&self) -> impl Iterator<Item = u64> {
        self.shards.iter().map(|shard| self.shared.dead_in(shard.index()))
    }

    fn dead_beside_the_first(&self) -> u64 {
        self.dead().skip(1).sum()
    }

    fn end(mut self) {
        for shard in &self.shards {
            shard.close(&mut shard.owner().lock().unwrap(), &self.shared);
        }
        assert!(self.producer.clear(&self.shared).is_nothing());
        self.producer.hand_back(&self.shared);
        self.shared.end_counting(&self.counters, 0);
    }
}

/// All that live are in the first shard, so a sweep of it takes long. Meanwhile some die there,
/// behind the sweep, so that this shard has the most dead, and others where there are the fewest.
#[test]
fn the_dead_are_bounded_though_one_shard_always_has_the_most() {
    const SHARDS: u32 = 64;
    const LIVING: u64 = 20_000;
    let mut shards = Shards::new(SHARDS);
    let ahead = (0..LIVING).map(|_| Some(shards.file(0))).collect();
    let mut met = Met { ahead, ..Met::default() };
    let mut most = 0;
    for _ in 0..8_000 {
        let dead: Vec<u64> = shards.dead().collect();
        let is_first = dead[0] < dead[1..].iter().max().unwrap() + 4 * GROUP as u64;
        for _ in 0..GROUP {
            if let Some(entry) = is_first.then(|| met.passed()).flatten() {
                shards.let_die(entry);
                met.newer.push(shards.file(0));
            } else {
                let fewest = (1..SHARDS).min_by_key(|&other| shards.shared.dead_in(other));
                let entry = shards.file(fewest.expect("there are others"));
                shards.let_die(entry);
            }
        }
        if shards.help() {
            met.visit(HELP);
        }
        most = most.max(shards.dead().sum());
    }
    // As `proofs/arithmetic` has it, without seats: each sweep may end amid a thread's visits.
    let lost = u64::from(SHARDS) * HELP as u64;
    assert!(5 * most <= 5 * LIVING + lost, "{most} dead, while {LIVING} live");
    shards.end();
}

/// More die all the time where the last sweep was.
#[test]
fn threads_sweep_each_shard_to_its_end_and_then_the_next_that_has_dead() {
    let mut shards = Shards::new(6);
    let litter = |shards: &mut Shards, shard, dead| {
        let entries: Vec<_> = (0..dead).map(|_| shards.file(shard)).collect();
        entries.into_iter().for_each(|entry| shards.let_die(entry));
    };
    // As many as a thread visits in three times.
    (1..6).for_each(|shard| litter(&mut shards, shard, 5 * HELP / 2));
    let swept = (0..10).map(|_| {
        let before: Vec<u64> = shards.dead().collect();
        shards.help();
        let has_fewer = |&shard: &usize| shards.shared.dead_in(shard as u32) < before[shard];
        let swept = (0..6).find(has_fewer).expect("a thread sweeps where there are any");
        litter(&mut shards, swept as u32, GROUP);
        swept
    });
    assert_eq!(swept.collect::<Vec<_>>(), [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]);
    shards.end();
}
