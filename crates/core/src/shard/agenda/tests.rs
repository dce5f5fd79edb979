//! In which order places open, and how much work an owner does: it visits each entry once when its
//! bucket is opened and once when its round is, however many rounds the owner is behind.

use super::super::tests::bench;
use super::super::trays::Trays;
use super::*;
use crate::bench::Bench;
use crate::doorbell::Bell;
use crate::memory::Count;
use crate::time::Geometry;

/// Slots and reach: all of the slots, as in the classic wheel, and fewer.
const SHAPES: [(u32, u32); 8] =
    [(2, 2), (3, 3), (3, 2), (64, 64), (64, 63), (64, 32), (1024, 1024), (1024, 2)];

impl Bench<u64> {
    /// Runs a turn and background work after it; what fires goes to `fired`.
    fn work_off(&self, now: u64, fired: &mut Vec<u64>) {
        let owner = &mut *self.shard.owner().lock().unwrap();
        let now = self.shard.begin_turn(Tick::new(now));
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
            // This many rounds of the ring, in which some hundred ticks have timers.
            let ticks = late * u64::from(shape.0);
            let stride = (ticks / 700).max(1);
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

/// Opens what is first and due by `now`.
fn begin_first(agenda: &mut Agenda<()>, now: u64) -> Option<(Place, bool)> {
    let first = agenda.first().filter(|place| place.expiration <= Tick::new(now))?;
    let is_aside = agenda.begin_opening(first, true).is_some();
    Some((first, is_aside))
}

fn place(level: u8, slot: u32, at: u64) -> Place {
    Place { level, slot, expiration: Tick::new(at) }
}

#[test]
fn places_open_in_order_of_time_and_from_above_when_equal_with_what_is_aside_before_the_bucket() {
    let (mut agenda, trays) = (Agenda::new(1), Trays::new());
    for place in [place(1, 5, 5), place(3, 0, 8), place(1, 0, 8), place(2, 1, 4)] {
        assert!(agenda.arm(place));
    }
    for place in [place(1, 0, 8), place(1, 6, 6), place(1, 6, 6)] {
        agenda.aside_or(place, || trays.add());
    }
    assert_eq!(agenda.first_of(2), Some(place(2, 1, 4)));
    assert_eq!(begin_first(&mut agenda, 3), None);
    let order: Vec<_> = std::iter::from_fn(|| begin_first(&mut agenda, 8)).collect();
    let of_8 = [(place(3, 0, 8), false), (place(1, 0, 8), true), (place(1, 0, 8), false)];
    assert_eq!(
        order[..3],
        [(place(2, 1, 4), false), (place(1, 5, 5), false), (place(1, 6, 6), true)]
    );
    assert_eq!(order[3..], of_8);
    assert!(agenda.first().is_none() && agenda.is_whole());
    assert_eq!(trays.iter().count(), 2, "one for each opening");
}

#[test]
fn the_first_is_known_whatever_comes_and_goes() {
    let (mut agenda, trays) = (Agenda::<()>::new(1), Trays::new());
    let mut random = 1_u64;
    for round in 0..4_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let level = (random >> 60) as u8 % 5 + 1;
        let new = place(level, 0, random >> 33 & 0xff);
        // More come than go at first, then the other way round.
        let comes = (random >> 40) % 100 < if round < 2_000 { 60 } else { 35 };
        match (comes, agenda.first_of(level)) {
            (true, _) if random >> 20 & 7 == 0 => _ = agenda.aside_or(new, || trays.add()),
            (true, _) => assert_ne!(agenda.is_armed(new), agenda.arm(new)),
            (false, Some(first)) => _ = agenda.begin_opening(first, true),
            (false, None) => {}
        }
        assert!(agenda.is_whole());
    }
}

#[test]
fn a_cascade_is_looked_for_when_a_coarse_bucket_came_or_went() {
    let mut agenda = Agenda::<()>::new(1);
    let mut has_changed = |change: fn(&mut Agenda<()>)| {
        agenda.cascades_from = Tick::NEVER;
        change(&mut agenda);
        agenda.cascades_from == Tick::ZERO
    };
    assert!(!has_changed(|agenda| _ = agenda.arm(place(1, 5, 5))));
    assert!(has_changed(|agenda| _ = agenda.arm(place(2, 1, 64))));
    assert!(!has_changed(|agenda| _ = agenda.begin_opening(place(2, 1, 64), false)));
    assert!(!has_changed(|agenda| assert_eq!(agenda.first_to_cascade(2), None)));
    assert!(has_changed(|agenda| _ = agenda.begin_opening(place(2, 1, 64), true)));
    assert!(!has_changed(|agenda| _ = agenda.begin_opening(place(1, 5, 5), true)));
}

#[test]
fn each_round_of_a_bucket_is_on_the_agenda_once() {
    let mut agenda = Agenda::new(1);
    let added = [5, 69, 133, 69].map(|at| agenda.arm(place(1, 5, at)));
    assert_eq!(added, [true, true, true, false]);
    assert!(agenda.is_armed(place(1, 5, 69)) && !agenda.is_armed(place(2, 5, 69)));
    let order: Vec<_> = std::iter::from_fn(|| begin_first(&mut agenda, 99)).collect();
    assert_eq!(order, [(place(1, 5, 5), false), (place(1, 5, 69), false)]);
    assert!(agenda.arm(place(1, 5, 69)), "it was opened");
}
