//! What a producer leaves behind, and the cost of its calls however many threads there were.

use super::super::{WithProducer, cancel};
use super::*;
use crate::doorbell::{Bell, Doorbell};
use crate::memory::visits;
use crate::time::Geometry;

#[test]
fn a_producer_that_ends_leaves_its_counters_to_the_next() {
    // SAFETY: everything built on it uses no other, and is closed before it is dropped.
    let shared = unsafe { Shared::<()>::new(0, 1, None) };
    let (mut first, second) = (Producer::new(&shared), Producer::new(&shared));
    assert!(!Arc::ptr_eq(&first.counters, &second.counters), "each counts by itself");
    assert!(first.clear(&shared).is_nothing());
    first.hand_back(&shared);
    let third = Producer::new(&shared);
    assert!(Arc::ptr_eq(&first.counters, &third.counters));
}

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
    // SAFETY: everything built on it uses no other, and is closed before it is dropped.
    let shared = unsafe { Shared::<()>::new(0, 1, None) };
    let few = shared.all_counters.len();
    (0..10_000).for_each(|_| end(Producer::new(&shared), &shared));
    assert!(shared.all_counters.len() <= few + 8, "{} all_counters", shared.all_counters.len());
    assert_eq!(shared.balanced_living(), 0);
}

#[test]
fn no_cancel_and_no_sleep_goes_through_the_counters_whatever_number_of_threads_there_was() {
    const TIMERS: u64 = 20_000;
    // SAFETY: everything built on it uses no other, and is closed before it is dropped.
    let shared = unsafe { Shared::new(0, 1, None) };
    let bell = Doorbell::new(Bell::None);
    let shard = Shard::new(0, Geometry::default(), bell, Tick::ZERO, &shared);
    let living: Vec<Producer<()>> = (0..1000).map(|_| Producer::new(&shared)).collect();
    let mut producer = Producer::new(&shared);
    let due = |i: u64| Tick::new(100_000 + i);
    let schedule = |producer: &mut Producer<()>, i| {
        let now = || Tick::ZERO;
        producer.schedule::<false>(&shared, &shard, due(i), now, (), true).unwrap().0
    };
    let timers: Vec<_> = (0..TIMERS).map(|i| schedule(&mut producer, i)).collect();
    let visits = visits::count();
    let mut asked_at = None;
    for (i, entry) in timers.into_iter().enumerate() {
        let mut asks = false;
        // SAFETY: this is its handle, and the producer is of its engine.
        assert!(unsafe { cancel(entry, Alone(&shared, &mut producer, &mut asks)) });
        asked_at = asked_at.or(asks.then_some(i as u64 + 1));
    }
    shard.next_wake(&shard.owner().lock().unwrap(), &shared);
    assert_eq!(visits::count(), visits, "counted by walking");
    // The depot holds 64 magazines of 32 seats. Seats let go beyond that are dead, and too many
    // when they are half as many as the living timers that are left.
    let asked_at = asked_at.expect("most of them are dead");
    let dead = asked_at - 64 * 32;
    assert!((2 * dead).abs_diff(TIMERS - asked_at) <= 256, "asked with {dead} dead");
    assert_eq!(shared.balanced_living(), 0);
    assert!(shard.close(&mut shard.owner().lock().unwrap(), &shared).is_empty());
    living.into_iter().chain([producer]).for_each(|producer| end(producer, &shared));
    assert_eq!(shared.living(), 0);
}
