//! How much work an owner does: it visits each entry once when its bucket is opened and once when
//! its round is, however many rounds the owner is behind.

use super::super::Shard;
use super::*;
use crate::doorbell::{Bell, Doorbell};
use crate::memory::{Count, Shared};
use crate::producer::Producer;
use crate::time::Geometry;

/// Slots and reach: all of the slots, as in the classic wheel, and fewer.
const SHAPES: [(u32, u32); 8] =
    [(2, 2), (3, 3), (3, 2), (64, 64), (64, 63), (64, 32), (1024, 1024), (1024, 2)];

struct Bench {
    shared: Shared<u64>,
    shard: Shard<u64>,
    producer: Producer<u64>,
}

impl Bench {
    fn new((slots, reach): (u32, u32)) -> Bench {
        // SAFETY: everything built on it uses no other, and is closed before it is dropped.
        let shared = unsafe { Shared::new(0, 1, None) };
        let geometry = Geometry::new(slots, reach).unwrap();
        let shard = Shard::new(0, geometry, Doorbell::new(Bell::None), Tick::ZERO, &shared);
        let producer = Producer::new(&shared);
        Bench { shared, shard, producer }
    }

    fn schedule(&mut self, deadline: u64, now: u64) {
        let Bench { shared, shard, producer } = self;
        let (due, now) = (Tick::new(deadline), || Tick::new(now));
        let _ = producer.schedule::<false>(shared, shard, due, now, deadline, false).unwrap();
    }

    /// Runs a turn and background work after it; what fires goes to `fired`.
    fn turn(&self, now: u64, fired: &mut Vec<u64>) {
        let owner = &mut *self.shard.owner().lock().unwrap();
        let now = self.shard.begin(Tick::new(now));
        self.shard.read_notices(owner);
        while self.shard.open_due(owner, now) {
            while !self.shard.flush(owner, &self.shared, 7) {
                fired.extend(owner.batch().drain(..).map(|(_, deadline)| deadline));
            }
        }
        fired.extend(owner.batch().drain(..).map(|(_, deadline)| deadline));
        while self.shard.run_background(owner, &self.shared, now) {}
        assert_eq!(owner.heap().iter().count(), owner.heap().iter().collect_distinct());
        self.shard.check(owner, now).unwrap();
    }

    /// Entries looked at, and entries filed: scheduled, or moved down a level.
    fn work(&self) -> (u64, u64) {
        let owner = self.shard.owner().lock().unwrap();
        let all_counters = &self.shared.all_counters;
        (owner.visits, all_counters.sum(Count::Filed) + all_counters.sum(Count::Cascaded))
    }
}

trait Distinct {
    fn collect_distinct(self) -> usize;
}

impl<I: Iterator<Item = Place>> Distinct for I {
    fn collect_distinct(self) -> usize {
        let pairs = self.map(|place| (place.level, place.slot, place.expiration));
        pairs.collect::<std::collections::BTreeSet<_>>().len()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Ok(mut owner) = self.shard.owner().lock() {
            self.shard.close(&mut owner, &self.shared);
        }
        let _ = self.producer.clear(&self.shared);
    }
}

#[test]
fn a_turn_looks_at_an_entry_twice_for_each_time_that_it_was_filed() {
    for shape in SHAPES {
        for late in [1, 3, 10, 100, 1_000, 10_000] {
            // This many rounds of the ring, in which a few thousand ticks have timers.
            let ticks = late * u64::from(shape.0);
            let stride = (ticks / 2_000).max(1);
            let mut bench = Bench::new(shape);
            let mut fired = Vec::new();
            let mut scheduled = 0;
            for now in (0..ticks).step_by(stride as usize) {
                for ahead in [1, u64::from(shape.1) - 1, 3 * u64::from(shape.1)] {
                    bench.schedule(now + ahead, now);
                    scheduled += 1;
                }
            }
            // The producers are ahead of the turns: by half of all ticks at first, then by less.
            let last = ticks + 3 * u64::from(shape.1);
            for now in [ticks / 2, ticks / 2 + 1, 3 * ticks / 4, ticks, last] {
                bench.turn(now, &mut fired);
                let (visits, filed) = bench.work();
                assert!(visits <= 2 * filed, "{shape:?}, late by {late}: {visits} of {filed}");
            }
            assert_eq!(fired.len(), scheduled, "{shape:?}, late by {late}");
            assert!(fired.is_sorted(), "{shape:?}, late by {late}");
        }
    }
}

#[test]
fn rounds_come_in_order_of_time_and_from_above_when_equal() {
    let (hands, mut rounds) = (Hands::<()>::new(), Rounds::new());
    let place = |level, slot, at| Place { level, slot, expiration: Tick::new(at) };
    let entries: Vec<_> = (0..4).map(|_| Entry::allocate(0)).collect();
    let places = [place(1, 5, 69), place(1, 5, 5), place(2, 1, 69), place(1, 5, 69)];
    for (place, &entry) in places.into_iter().zip(&entries) {
        // SAFETY: it is held here alone.
        unsafe { rounds.add(&hands, place, entry) };
    }
    assert_eq!(rounds.rest().count(), 4);
    assert_eq!(rounds.places().count(), 3);
    assert!(rounds.places().all(|place| places.contains(&place) && rounds.at(place).is_some()));
    assert!(rounds.take(places[0]).is_none(), "it is not the first");
    let mut order = Vec::new();
    while let Some(first) = rounds.first() {
        let hand = rounds.take(first).expect("it is the first");
        order.push((first, hand.rest().count()));
        let mut at = hand.open();
        while let Some(entry) = hand.peek(&at) {
            // SAFETY: the hand showed it.
            unsafe { hand.pass(&mut at, entry) };
        }
        rounds.put_away(hand);
    }
    assert_eq!(order, [(places[1], 1), (places[2], 1), (places[0], 2)]);
    assert!(rounds.is_empty() && hands.iter().count() == 5, "two wide ones and three narrow");
    // SAFETY: nothing leads to them any more.
    entries.into_iter().for_each(|entry| unsafe { Entry::free(entry) });
}
