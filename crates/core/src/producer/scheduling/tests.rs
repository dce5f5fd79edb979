//! What a producer leaves behind, and the cost of its calls however many threads there were.

use super::super::{WithProducer, cancel};
use super::*;
use crate::bench::Bench;
use crate::doorbell::Bell;
use crate::memory::{alone, visits};
use crate::shard::tests::bench;
use crate::time::Geometry;

/// A producer by itself, and whether a cancel has deferred work.
struct Alone<'a>(&'a Shared<()>, &'a mut Producer<()>, &'a mut bool);

impl WithProducer<()> for Alone<'_> {
    fn with_producer(
        &mut self,
        _engine: u32,
        f: impl FnOnce(&mut Producer<()>, &Shared<()>) -> Deferred,
    ) -> bool {
        *self.2 |= !f(self.1, self.0).is_nothing();
        true
    }
}

fn end(mut producer: Producer<()>, shared: &Shared<()>) {
    assert!(producer.clear(shared).is_nothing());
    producer.hand_back(shared);
}

#[test]
fn threads_that_come_and_go_one_by_one_leave_no_counters() {
    let shared = alone(1);
    let few = shared.all_counters.writers();
    (0..10_000).for_each(|_| end(Producer::new(&shared, 0), &shared));
    let sets = shared.all_counters.writers();
    assert!(sets <= few + 8, "{sets} sets of counters");
    assert_eq!(shared.balanced_living(), 0);
}

#[test]
fn no_cancel_and_no_sleep_goes_through_the_counters_whatever_number_of_threads_there_was() {
    const TIMERS: u64 = 20_000;
    let mut bench = bench(Geometry::default(), Bell::None);
    let living: Vec<Producer<()>> = (0..1000).map(|_| Producer::new(&bench.shared, 0)).collect();
    let timers: Vec<_> = (0..TIMERS).map(|i| bench.schedule([100_000 + i, 0], (), true)).collect();
    let visits = visits::count();
    let mut asked_at = None;
    let Bench { shared, shard, producer, .. } = &mut bench;
    for (i, entry) in timers.into_iter().enumerate() {
        let mut asks = false;
        // SAFETY: this is its handle, and the producer is of its engine.
        assert!(unsafe { cancel(entry, Alone(shared, producer, &mut asks)) });
        asked_at = asked_at.or(asks.then_some(i as u64 + 1));
    }
    let owner = shard.owner().lock().unwrap();
    shard.next_wake(&owner, shared, owner.next_opening());
    drop(owner);
    assert_eq!(visits::count(), visits, "counted by walking");
    // The shard's depot takes seats until it has one for four living timers: those of a fifth of
    // all. Then the common one does: a fifth of the rest. Seats let go beyond that are dead, and
    // too many when they are half as many as the living timers that are left.
    let asked_at = asked_at.expect("most of them are dead");
    let dead = asked_at - (TIMERS / 5 + TIMERS * 4 / 25);
    assert!((2 * dead).abs_diff(TIMERS - asked_at) <= 256, "asked with {dead} dead");
    assert_eq!(shared.balanced_living(), 0);
    assert!(shard.close(&mut shard.owner().lock().unwrap(), shared).is_empty());
    living.into_iter().for_each(|producer| end(producer, shared));
    assert!(producer.clear(shared).is_nothing());
    assert_eq!(shared.balance.living(), 0);
}
