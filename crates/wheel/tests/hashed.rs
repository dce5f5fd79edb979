//! The hashed wheel, scenario by scenario. What it has in common with the hierarchical one is in
//! `tests/both.rs`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use tickless_wheel::{GeometryError, HashedWheel, Key, MAX_SLOTS, Tick};

fn at(count: u64) -> Tick {
    Tick::new(count)
}

fn with_slots<T>(slots: u32) -> HashedWheel<T> {
    HashedWheel::new(slots).unwrap()
}

/// What fires on the way to `now`: deadline and payload.
fn fired<T>(wheel: &mut HashedWheel<T>, now: u64) -> Vec<(u64, T)> {
    let mut out = Vec::new();
    let count = wheel.advance(at(now), |_, deadline, payload| out.push((deadline.get(), payload)));
    assert_eq!(count, out.len());
    wheel.check();
    out
}

/// A payload that counts how many of it there are.
struct Counted(Rc<Cell<i32>>);

impl Counted {
    fn new(alive: &Rc<Cell<i32>>) -> Counted {
        alive.set(alive.get() + 1);
        Counted(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn a_timer_fires_at_its_deadline_and_not_before() {
    for slots in [2, 3, 4, 512] {
        for deadline in [1, 2, 3, 4, 5, 15, 16, 17, 511, 512, 513, 1_000, 123_456, 1 << 40] {
            let mut wheel = with_slots(slots);
            wheel.insert(at(deadline), "due");
            assert_eq!(fired(&mut wheel, deadline - 1), []);
            assert_eq!(fired(&mut wheel, deadline), [(deadline, "due")]);
            assert!(wheel.is_empty());
        }
    }
}

#[test]
fn a_timer_fires_on_its_tick_when_time_goes_tick_by_tick() {
    for slots in [2, 3, 8] {
        let mut wheel = with_slots(slots);
        for deadline in 1..=50 {
            wheel.insert(at(deadline), deadline);
        }
        for now in 1..=50 {
            assert_eq!(fired(&mut wheel, now), [(now, now)]);
        }
    }
}

#[test]
fn each_time_its_slot_is_gone_through_a_timer_has_one_round_less() {
    let mut wheel = with_slots(4);
    let key = wheel.insert(at(22), ());
    let mut rounds = 5;
    assert_eq!(wheel.rounds(key), Some(rounds));
    for now in 1..22 {
        assert_eq!(fired(&mut wheel, now), []);
        if now % 4 == 22 % 4 {
            rounds -= 1;
        }
        assert_eq!(wheel.rounds(key), Some(rounds), "at {now}");
    }
    assert_eq!(rounds, 0);
    assert_eq!(fired(&mut wheel, 22), [(22, ())]);
    assert_eq!(wheel.rounds(key), None);
}

#[test]
fn a_leap_takes_as_many_rounds_as_it_spans() {
    for leap in 1..=41 {
        let mut wheel = with_slots(4);
        let key = wheel.insert(at(42), ());
        assert_eq!(fired(&mut wheel, leap), []);
        let visits_left = (leap + 1..42).filter(|now| now % 4 == 42 % 4).count() as u64;
        assert_eq!(wheel.rounds(key), Some(visits_left), "after {leap}");
        assert_eq!(fired(&mut wheel, 41), []);
        assert_eq!(fired(&mut wheel, 42), [(42, ())]);
    }
}

#[test]
fn what_is_late_or_never_fires_has_no_rounds_to_stay() {
    let mut wheel = HashedWheel::with_start(4, at(100)).unwrap();
    let late = wheel.insert(at(3), ());
    let never = wheel.insert(Tick::NEVER, ());
    assert_eq!(wheel.rounds(late), Some(0));
    assert_eq!(wheel.rounds(never), None);
    wheel.cancel(late);
    assert_eq!(wheel.rounds(late), None);
}

#[test]
fn a_leap_over_many_rounds_fires_in_order_of_deadlines() {
    let mut wheel = with_slots(4);
    let deadlines = [700, 3, 64, 65, 63, 17, 16, 15, 4, 5, 1_000_000, 2, 256, 255, 257];
    for deadline in deadlines {
        wheel.insert(at(deadline), ());
    }
    let beyond = wheel.insert(at(2_000_001), ());
    let order: Vec<u64> = fired(&mut wheel, 2_000_000).into_iter().map(|(at, ())| at).collect();
    let mut sorted = deadlines;
    sorted.sort_unstable();
    assert_eq!(order, sorted);
    assert!(wheel.contains(beyond));
}

#[test]
fn a_leap_of_exactly_one_round_goes_through_every_slot() {
    for leap in [7, 8, 9] {
        let mut wheel = with_slots(8);
        for deadline in (1..=20).rev() {
            wheel.insert(at(deadline), ());
        }
        let order: Vec<u64> = fired(&mut wheel, leap).into_iter().map(|(at, ())| at).collect();
        assert_eq!(order, (1..=leap).collect::<Vec<_>>());
        assert_eq!(wheel.len() as u64, 20 - leap);
    }
}

#[test]
fn a_leap_over_empty_time_goes_round_once_at_most() {
    // Tick by tick this would take longer than anybody waits.
    let mut wheel = with_slots(MAX_SLOTS);
    assert_eq!(fired(&mut wheel, 1 << 50), []);
    wheel.insert(at((1 << 50) + (1 << 49)), ());
    assert_eq!(fired(&mut wheel, (1 << 50) + (1 << 48)), []);
    assert_eq!(fired(&mut wheel, 1 << 52).len(), 1);
}

#[test]
fn what_is_due_fires_at_the_next_advance_to_the_same_time_not_a_round_later() {
    let mut wheel = HashedWheel::with_start(8, at(100)).unwrap();
    wheel.insert(at(100), "now");
    wheel.insert(at(7), "long ago");
    assert_eq!(wheel.next_expiration(), Some(at(100)));
    let mut both = fired(&mut wheel, 100);
    both.sort_unstable();
    assert_eq!(both, [(7, "long ago"), (100, "now")]);
    assert_eq!(fired(&mut wheel, 100), []);
    wheel.insert(at(99), "again");
    assert_eq!(fired(&mut wheel, 101), [(99, "again")]);
}

#[test]
fn time_does_not_go_back() {
    let mut wheel = with_slots(8);
    fired(&mut wheel, 50);
    wheel.insert(at(10), ());
    assert_eq!(fired(&mut wheel, 49), [], "an earlier time does nothing, even for what is due");
    assert_eq!(wheel.now(), at(50));
    assert_eq!(fired(&mut wheel, 50), [(10, ())]);
}

#[test]
fn a_timer_for_never_does_not_fire_at_the_end_of_time_and_can_be_called_back() {
    let mut wheel = with_slots(8);
    let never = wheel.insert(Tick::NEVER, "never");
    wheel.insert(Tick::LAST, "last");
    assert_eq!(fired(&mut wheel, u64::MAX), [(Tick::LAST.get(), "last")]);
    assert_eq!((wheel.now(), wheel.next_expiration()), (Tick::LAST, None));
    assert_eq!(wheel.deadline(never), Some(Tick::NEVER));
    assert!(wheel.reset(never, at(20)));
    assert_eq!(wheel.next_expiration(), Some(Tick::LAST));
    assert!(wheel.reset(never, Tick::NEVER));
    assert_eq!(fired(&mut wheel, u64::MAX), []);
    assert_eq!(wheel.cancel(never), Some("never"));
    wheel.check();
}

#[test]
fn the_next_expiration_is_the_earliest_deadline_wherever_it_lies() {
    for now in [0, 5, 7, 8, 100] {
        for deadline in 1..40 {
            let mut wheel = HashedWheel::with_start(8, at(now)).unwrap();
            assert_eq!(wheel.next_expiration(), None);
            let first = wheel.insert(at(now + deadline), ());
            for later in 0..20 {
                wheel.insert(at(now + deadline + later), ());
            }
            wheel.insert(Tick::NEVER, ());
            assert_eq!(wheel.next_expiration(), Some(at(now + deadline)));
            wheel.cancel(first);
            assert_eq!(wheel.next_expiration(), Some(at(now + deadline)));
            assert_eq!(fired(&mut wheel, now + deadline - 1), []);
            assert_eq!(fired(&mut wheel, now + deadline).len(), 1);
            assert_eq!(wheel.next_expiration(), Some(at(now + deadline + 1)));
        }
    }
}

#[test]
fn a_stale_key_reaches_nobody_although_its_place_is_reused_at_once() {
    let mut wheel = with_slots(8);
    let first = wheel.insert(at(5), 1);
    assert_eq!(wheel.cancel(first), Some(1));
    let second = wheel.insert(at(5), 2);
    assert_ne!(first, second);
    assert_eq!(wheel.get(first), None);
    assert_eq!(wheel.get_mut(first), None);
    assert_eq!((wheel.deadline(first), wheel.contains(first)), (None, false));
    assert!(!wheel.reset(first, at(1)));
    assert_eq!(wheel.cancel(first), None);
    *wheel.get_mut(second).unwrap() += 1;
    assert_eq!(fired(&mut wheel, 5), [(5, 3)]);
    assert_eq!(wheel.cancel(second), None);
}

#[test]
fn a_sink_that_panics_loses_only_what_it_was_given() {
    // Tick by tick within a round, and by leaps.
    for (slots, start) in [(1_024, 0), (4, 0), (1_024, 2), (4, 2)] {
        for call in 0..6 {
            let alive = Rc::new(Cell::new(0));
            let mut wheel = HashedWheel::with_start(slots, at(start)).unwrap();
            for deadline in [2, 2, 2, 50, 50, 900] {
                wheel.insert(at(deadline), Counted::new(&alive));
            }
            let mut calls = 0;
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                wheel.advance(at(1_000), |_, _, _| {
                    calls += 1;
                    if calls > call {
                        resume_unwind(Box::new("a sink that panics"));
                    }
                })
            }));
            assert!(outcome.is_err());
            wheel.check();
            assert_eq!((wheel.len(), alive.get()), (6 - calls, 6 - calls as i32));
            assert_eq!(wheel.now(), at([2, 2, 2, 50, 50, 900][calls - 1]));
            // What comes in now keeps its place in the order.
            wheel.insert(at(1), Counted::new(&alive));
            wheel.insert(at(950), Counted::new(&alive));
            wheel.check();
            let rest: Vec<u64> = fired(&mut wheel, 1_000).into_iter().map(|(at, _)| at).collect();
            assert_eq!(rest, [&[1], &[2, 2, 2, 50, 50, 900][calls..], &[950]].concat());
            assert_eq!(alive.get(), 0);
        }
    }
}

#[test]
fn what_a_panic_left_behind_is_due_at_once() {
    let mut wheel = with_slots(4);
    for payload in 0..3 {
        wheel.insert(at(6), payload);
    }
    let panics = |_: Key, _: Tick, _: i32| resume_unwind(Box::new("a sink that panics"));
    assert!(catch_unwind(AssertUnwindSafe(|| wheel.advance(at(7), panics))).is_err());
    assert_eq!((wheel.now(), wheel.next_expiration()), (at(6), Some(at(6))));
    assert_eq!(fired(&mut wheel, 6).len(), 2, "at the same time, not a round later");
}

#[test]
fn every_payload_is_dropped_once_whichever_way_it_leaves() {
    let alive = Rc::new(Cell::new(0));
    let mut wheel = with_slots(8);
    let keys: Vec<Key> = (0..8).map(|n| wheel.insert(at(n * 30), Counted::new(&alive))).collect();
    wheel.advance(at(30), |_, _, _| {});
    assert_eq!(alive.get(), 6);
    drop(wheel.cancel(keys[5]));
    assert_eq!(alive.get(), 5);
    let kept = wheel.drain().next().unwrap();
    assert_eq!((alive.get(), wheel.len()), (1, 0), "all but the one that was taken");
    drop(kept);
    wheel.insert(at(100), Counted::new(&alive));
    wheel.clear();
    assert_eq!((alive.get(), wheel.now(), wheel.next_expiration()), (0, at(30), None));
    wheel.insert(at(1), Counted::new(&alive));
    wheel.insert(Tick::NEVER, Counted::new(&alive));
    drop(wheel);
    assert_eq!(alive.get(), 0);
}

#[test]
fn shrinking_keeps_timers_keys_and_time() {
    let mut wheel = HashedWheel::with_capacity(512, 1_000).unwrap();
    let keys: Vec<Key> = (0..1_000_u64).map(|n| wheel.insert(at(n + 1), n)).collect();
    for key in &keys[500..] {
        wheel.cancel(*key);
    }
    wheel.shrink_to_fit();
    wheel.check();
    assert_eq!(wheel.get(keys[499]), Some(&499));
    for n in 0..1_000 {
        wheel.insert(at(2_000), n);
    }
    assert!(keys[500..].iter().all(|key| !wheel.contains(*key)));
    assert_eq!(fired(&mut wheel, 1_999).len(), 500);
}

#[test]
fn a_number_of_slots_that_makes_no_ring_is_refused() {
    for slots in [0, 1, MAX_SLOTS + 1, u32::MAX] {
        let refused = Err(GeometryError::Slots { slots });
        assert_eq!(HashedWheel::<u8>::new(slots).map(drop), refused);
        assert_eq!(HashedWheel::<u8>::with_start(slots, at(5)).map(drop), refused);
        assert_eq!(HashedWheel::<u8>::with_capacity(slots, 5).map(drop), refused);
    }
    for slots in [2, 3, MAX_SLOTS] {
        assert_eq!(with_slots::<u8>(slots).slots(), slots);
    }
    assert_eq!(HashedWheel::<u8>::default().slots(), HashedWheel::<u8>::DEFAULT_SLOTS);
}

#[test]
fn a_start_at_never_is_one_at_the_last_tick() {
    let mut wheel = HashedWheel::with_start(8, Tick::NEVER).unwrap();
    assert_eq!(wheel.now(), Tick::LAST);
    wheel.insert(Tick::LAST, "due");
    assert_eq!(fired(&mut wheel, u64::MAX), [(Tick::LAST.get(), "due")]);
}

#[test]
fn payloads_of_any_size_and_alignment_do() {
    #[repr(align(64))]
    struct Wide([u8; 200]);
    let mut wide = with_slots(8);
    let key = wide.insert(at(6), Wide([7; 200]));
    assert_eq!(wide.get(key).unwrap().0[199], 7);
    assert_eq!(fired(&mut wide, 6).len(), 1);
    let mut empty = with_slots(8);
    for deadline in 0..1_000 {
        empty.insert(at(deadline), ());
    }
    assert_eq!(fired(&mut empty, 999).len(), 1_000);
}

#[test]
fn a_hashed_wheel_can_be_printed() {
    let mut wheel = with_slots(8);
    wheel.insert(at(3), "not needed to be printable");
    let text = format!("{wheel:?}");
    assert!(text.contains("len: 1") && text.contains("slots: 8"), "{text}");
}
