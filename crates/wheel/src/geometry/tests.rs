//! What placement promises, at and around the edges of each level, for shapes of all kinds.

use alloc::{vec, vec::Vec};

use super::*;

fn shapes() -> impl Iterator<Item = Geometry> {
    [(2, 2), (3, 3), (3, 2), (20, 20), (20, 7), (64, 32), (64, 64), (512, 512), (1000, 999)]
        .into_iter()
        .map(|(slots, reach)| Geometry::new(slots, reach).unwrap())
}

/// Deadlines at and around every level's edges, and at the ends of the range.
fn edges(g: &Geometry, from: Tick) -> Vec<Tick> {
    let mut out = vec![Tick::ZERO, from, Tick::LAST, Tick::NEVER];
    for level in 1..=g.levels() {
        let width = g.width(level);
        for count in [1, u64::from(g.reach()) - 1, u64::from(g.reach())] {
            let at = from.get().saturating_add(width.saturating_mul(count));
            let aligned = at / width * width;
            for x in [at - 1, at, at.saturating_add(1), aligned, aligned.saturating_sub(1)] {
                out.push(Tick::new(x));
            }
        }
    }
    out
}

#[test]
fn refuses_what_cannot_be_a_wheel() {
    assert_eq!(Geometry::new(1, 1), Err(GeometryError::Slots { slots: 1 }));
    assert_eq!(Geometry::new(0, 0), Err(GeometryError::Slots { slots: 0 }));
    assert!(Geometry::new(MAX_SLOTS + 1, 2).is_err());
    assert_eq!(Geometry::new(8, 1), Err(GeometryError::Reach { reach: 1, slots: 8 }));
    assert_eq!(Geometry::new(8, 9), Err(GeometryError::Reach { reach: 9, slots: 8 }));
}

#[test]
fn a_bucket_opens_before_anything_in_it_is_late_and_holds_what_is_filed_there() {
    for g in shapes() {
        for from in [0, 1, 5, 63, 64, 1000, 123_456_789, 1 << 40].map(Tick::new) {
            for deadline in edges(&g, from) {
                let place = g.place(deadline, from);
                let due = deadline.max(from);
                let width = g.width(place.level);
                assert_eq!(place.expiration.get() % width, 0, "aligned");
                assert!(place.expiration <= due, "opened in time: {g:?} {from:?} {deadline:?}");
                assert!(due.get() - place.expiration.get() < width, "inside the span");
                assert_eq!(
                    u64::from(place.slot),
                    place.expiration.get() / width % u64::from(g.slots())
                );
            }
        }
    }
}

#[test]
fn looking_from_a_buckets_start_moves_its_content_down_until_it_is_due() {
    for g in shapes() {
        for deadline in edges(&g, Tick::new(777)) {
            let mut place = g.place(deadline, Tick::new(777));
            while place.level > 1 {
                let next = g.place(deadline, place.expiration);
                assert!(next.level < place.level, "{g:?} {deadline:?} {place:?} {next:?}");
                place = next;
            }
            assert_eq!(place.expiration, deadline.max(Tick::new(777)));
        }
    }
}

#[test]
fn the_lowest_level_that_reaches_is_taken() {
    for g in shapes() {
        for deadline in edges(&g, Tick::new(4_000)) {
            let place = g.place(deadline, Tick::new(4_000));
            if place.level > 1 {
                let below = g.width(place.level - 1);
                let ahead = deadline.get() / below - 4_000 / below;
                assert!(ahead >= u64::from(g.reach()));
            }
        }
    }
}

#[test]
fn the_best_tick_of_a_window_is_the_one_that_trying_them_all_finds() {
    // How wide the widest bucket is that opens then.
    let widest = |g: &Geometry, at: u64| {
        (1..=g.levels()).rev().map(|level| g.width(level)).find(|width| at % width == 0).unwrap()
    };
    let stays = |g: &Geometry, at, from| g.place(Tick::new(at), from).expiration.get() == at;
    for g in shapes() {
        for first in (0..40).chain([900, 1023, 1024, 1025, 8_000, 262_143, 1_000_001]) {
            for last in (first..first + 70).chain([first + 1_000, first + 2_500]) {
                let from = Tick::new(first / 2);
                let found = g.best_within(Tick::new(first), Tick::new(last), from).get();
                let width = (first..=last).map(|at| widest(&g, at)).max().unwrap();
                let best = (first..=last).filter(|at| at % width == 0);
                let roundest = best.clone().max_by_key(|at| (at / width).trailing_zeros());
                let wanted = roundest.filter(|&at| stays(&g, at, from));
                let wanted = wanted.or(best.min().filter(|&at| stays(&g, at, from)));
                assert_eq!(found, wanted.or(roundest).unwrap(), "{g:?} {first}..={last}");
            }
        }
    }
}

#[test]
fn a_window_without_end_or_beginning_has_a_best_tick_too() {
    let g = Geometry::default();
    let best = |first, last| g.best_within(first, last, Tick::ZERO);
    assert_eq!(best(Tick::new(9), Tick::new(8)), Tick::new(9));
    assert_eq!(best(Tick::NEVER, Tick::NEVER), Tick::NEVER);
    assert_eq!(best(Tick::ZERO, Tick::LAST), Tick::ZERO);
    assert_eq!(best(Tick::new(1), Tick::LAST).get(), 1 << 53, "the roundest of 54 bits");
}

#[test]
fn what_is_due_goes_into_the_bucket_of_now() {
    let g = Geometry::default();
    let place = g.place(Tick::new(3), Tick::new(100));
    assert_eq!(place, Place { level: 1, slot: 36, expiration: Tick::new(100) });
}
