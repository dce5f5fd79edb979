//! How much work an owner does: it visits each entry once when its bucket is opened and once when
//! its round is, however many rounds the owner is behind.

use super::super::tests::bench;
use super::*;
use crate::bench::Bench;
use crate::doorbell::Bell;
use crate::memory::Count;
use crate::time::{Geometry, Tick};

/// Slots and reach: all of the slots, as in the classic wheel, and fewer.
const SHAPES: [(u32, u32); 8] =
    [(2, 2), (3, 3), (3, 2), (64, 64), (64, 63), (64, 32), (1024, 1024), (1024, 2)];

impl Bench<u64> {
    /// Runs a turn and background work after it; what fires goes to `fired`.
    fn work_off(&self, now: u64, fired: &mut Vec<u64>) {
        let owner = &mut *self.shard.owner().lock().unwrap();
        let now = self.shard.begin(Tick::new(now));
        self.shard.read_notices(owner, &self.shared);
        while self.shard.open_due(owner, now) {
            while !self.shard.flush(owner, &self.shared, 7) {
                fired.extend(owner.batch().drain(..).map(|(_, deadline)| deadline));
            }
        }
        fired.extend(owner.batch().drain(..).map(|(_, deadline)| deadline));
        while self.shard.run_background(owner, &self.shared, now) {}
        self.shard.check(owner, &self.shared, now).unwrap();
    }

    /// Entries looked at, and entries filed: scheduled, or moved down a level.
    fn work(&self) -> (u64, u64) {
        let sums = self.shared.all_counters.sums();
        let filed = sums.get(Count::Filed) + sums.get(Count::Cascaded);
        (self.shard.owner().lock().unwrap().visits, filed)
    }
}

#[test]
fn a_turn_looks_at_an_entry_twice_for_each_time_that_it_was_filed() {
    for shape in SHAPES {
        for late in [1, 3, 10, 100, 1_000, 10_000] {
            // This many rounds of the ring, in which a few thousand ticks have timers.
            let ticks = late * u64::from(shape.0);
            let stride = (ticks / 2_000).max(1);
            let geometry = Geometry::new(shape.0, shape.1).unwrap();
            let mut bench = bench(geometry, Bell::None);
            let mut fired = Vec::new();
            let mut scheduled = 0;
            for now in (0..ticks).step_by(stride as usize) {
                for ahead in [1, u64::from(shape.1) - 1, 3 * u64::from(shape.1)] {
                    bench.schedule([now + ahead, now], now + ahead, false);
                    scheduled += 1;
                }
            }
            // The producers are ahead of the turns: by half of all ticks at first, then by less.
            let last = ticks + 3 * u64::from(shape.1);
            for now in [ticks / 2, ticks / 2 + 1, 3 * ticks / 4, ticks, last] {
                bench.work_off(now, &mut fired);
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
    let (trays, mut rounds) = (Trays::<()>::new(), Rounds::new());
    let place = |level, slot, at| Place { level, slot, expiration: Tick::new(at) };
    let entries: Vec<_> = (0..4).map(|_| Entry::allocate(0)).collect();
    let places = [place(1, 5, 69), place(1, 5, 5), place(2, 1, 69), place(1, 5, 69)];
    for (place, &entry) in places.into_iter().zip(&entries) {
        // SAFETY: it is held here alone.
        unsafe { rounds.add(&trays, place, entry) };
    }
    // SAFETY: they are freed at the end of the test.
    let guard = unsafe { Guard::assume() };
    assert_eq!(rounds.rest(guard).count(), 4);
    assert_eq!(rounds.opens.iter().count(), 3);
    assert!(rounds.opens.iter().all(|place| places.contains(&place)));
    assert!(rounds.take(places[0]).is_none(), "it is not the first");
    let mut order = Vec::new();
    while let Some(first) = rounds.opens.first() {
        let tray = rounds.take(first).expect("it is the first");
        order.push((first, tray.rest(guard).count()));
        let mut at = tray.open();
        while let Some(entry) = tray.peek(&at) {
            // SAFETY: the tray showed it.
            unsafe { tray.pass(&mut at, entry) };
        }
        rounds.put_away(tray);
    }
    assert_eq!(order, [(places[1], 1), (places[2], 1), (places[0], 2)]);
    assert!(rounds.is_empty() && trays.iter().count() == 3, "a narrow one for each round");
    // SAFETY: nothing leads to them any more.
    entries.into_iter().for_each(|entry| unsafe { Entry::free(entry) });
}
