//! The hierarchical wheel, scenario by scenario.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use tickless_wheel::{Geometry, Key, Tick, Wheel};

fn at(count: u64) -> Tick {
    Tick::new(count)
}

fn small<T>() -> Wheel<T> {
    Wheel::new(Geometry::new(4, 4).unwrap())
}

/// What fires on the way to `now`: deadline and payload.
fn fired<T>(wheel: &mut Wheel<T>, now: u64) -> Vec<(u64, T)> {
    let mut out = Vec::new();
    let count = wheel.advance(at(now), |_, deadline, payload| out.push((deadline.get(), payload)));
    assert_eq!(count, out.len());
    wheel.check();
    out
}

/// Writes its name down when it is dropped.
struct Witness(u32, Rc<RefCell<Vec<u32>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[test]
fn a_timer_fires_at_its_deadline_and_not_before() {
    for deadline in [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1_000, 123_456, 1 << 40] {
        let mut wheel = small();
        wheel.insert(at(deadline), "due");
        assert_eq!(fired(&mut wheel, deadline - 1), []);
        assert_eq!(fired(&mut wheel, deadline), [(deadline, "due")]);
        assert!(wheel.is_empty());
    }
}

#[test]
fn a_jump_over_everything_fires_in_order_of_deadlines() {
    let mut wheel = small();
    let deadlines = [700, 3, 64, 65, 63, 17, 16, 15, 4, 5, 1_000_000, 2, 256, 255, 257];
    for deadline in deadlines {
        wheel.insert(at(deadline), ());
    }
    let order: Vec<u64> = fired(&mut wheel, 2_000_000).into_iter().map(|(at, ())| at).collect();
    let mut sorted = deadlines;
    sorted.sort_unstable();
    assert_eq!(order, sorted);
}

#[test]
fn what_is_due_fires_at_the_next_advance_to_the_same_time() {
    let mut wheel = Wheel::with_start(Geometry::default(), at(100));
    wheel.insert(at(100), "now");
    wheel.insert(at(7), "long ago");
    assert_eq!(wheel.next_expiration(), Some(at(100)));
    let mut both = fired(&mut wheel, 100);
    both.sort_unstable();
    assert_eq!(both, [(7, "long ago"), (100, "now")]);
    assert_eq!(fired(&mut wheel, 100), []);
    wheel.insert(at(99), "again");
    assert_eq!(fired(&mut wheel, 100), [(99, "again")]);
}

#[test]
fn time_does_not_go_back() {
    let mut wheel = small();
    fired(&mut wheel, 50);
    wheel.insert(at(10), ());
    assert_eq!(fired(&mut wheel, 49), [], "an earlier time does nothing, even for what is due");
    assert_eq!(wheel.now(), at(50));
    assert_eq!(fired(&mut wheel, 50), [(10, ())]);
}

#[test]
fn a_timer_for_never_does_not_fire_at_the_end_of_time_and_can_be_cancelled() {
    let mut wheel = small();
    let never = wheel.insert(Tick::NEVER, "never");
    let last = wheel.insert(Tick::LAST, "last");
    assert_eq!(fired(&mut wheel, u64::MAX), [(Tick::LAST.get(), "last")]);
    assert_eq!(wheel.now(), Tick::LAST);
    assert_eq!(wheel.next_expiration(), None);
    assert!(!wheel.contains(last));
    assert_eq!(wheel.len(), 1);
    assert_eq!(wheel.cancel(never), Some("never"));
    assert!(wheel.is_empty());
    wheel.check();
}

#[test]
fn a_timer_for_never_can_be_called_back_and_sent_away_again() {
    let mut wheel = small();
    let key = wheel.insert(Tick::NEVER, ());
    assert!(wheel.reset(key, at(20)));
    wheel.check();
    assert_eq!(wheel.next_expiration(), Some(at(16)));
    assert!(wheel.reset(key, Tick::NEVER));
    wheel.check();
    assert_eq!(wheel.next_expiration(), None);
    assert_eq!(fired(&mut wheel, 1_000), []);
    assert_eq!(wheel.deadline(key), Some(Tick::NEVER));
}

/// What is begun in memory that was not touched for long costs as much as several timers do.
#[test]
fn a_limit_counts_the_buckets_that_timers_come_down_to() {
    let calls = |ticks: u64| {
        let mut wheel = Wheel::default();
        (0..1_000).for_each(|number| _ = wheel.insert(at(65_536 + number % ticks), ()));
        let mut calls = 0;
        while wheel.next_expiration().is_some_and(|next| next <= at(65_535 + ticks)) {
            wheel.advance_within(at(65_535 + ticks), 100, |_, _, ()| {});
            calls += 1;
        }
        assert!(wheel.is_empty());
        calls
    };
    let (in_one, in_many) = (calls(1), calls(250));
    assert!((20..30).contains(&in_one), "{in_one}");
    assert!((35..60).contains(&in_many), "{in_many}");
}

#[test]
fn cancelling_returns_the_payload_once() {
    let mut wheel = small();
    let key = wheel.insert(at(9), String::from("payload"));
    assert_eq!(wheel.cancel(key).as_deref(), Some("payload"));
    assert_eq!(wheel.cancel(key), None);
    assert_eq!(fired(&mut wheel, 100), []);
}

#[test]
fn cancelling_one_of_many_in_a_bucket_leaves_the_others() {
    for victim in 0..5 {
        let mut wheel = small();
        let keys: Vec<Key> = (0..5).map(|payload| wheel.insert(at(3), payload)).collect();
        assert_eq!(wheel.cancel(keys[victim]), Some(victim));
        wheel.check();
        let mut left: Vec<usize> = fired(&mut wheel, 3).into_iter().map(|(_, p)| p).collect();
        left.sort_unstable();
        assert_eq!(left, (0..5).filter(|payload| *payload != victim).collect::<Vec<_>>());
    }
}

#[test]
fn a_reset_timer_fires_at_its_new_time_only() {
    for (from, to) in [(10, 500), (500, 10), (10, 11), (17, 18), (10, 10)] {
        let mut wheel = small();
        let key = wheel.insert(at(from), "moved");
        assert!(wheel.reset(key, at(to)));
        wheel.check();
        assert_eq!(wheel.deadline(key), Some(at(to)));
        assert_eq!(fired(&mut wheel, to - 1), []);
        assert_eq!(fired(&mut wheel, to), [(to, "moved")]);
        assert_eq!(fired(&mut wheel, 1_000), []);
        assert!(!wheel.reset(key, at(2_000)));
    }
}

#[test]
fn a_stale_key_reaches_nobody_although_its_slot_is_reused_at_once() {
    let mut wheel = small();
    let first = wheel.insert(at(5), 1);
    wheel.cancel(first);
    let second = wheel.insert(at(5), 2);
    assert_ne!(first, second);
    assert_eq!(wheel.get(first), None);
    assert_eq!(wheel.get_mut(first), None);
    assert_eq!(wheel.deadline(first), None);
    assert!(!wheel.contains(first));
    assert!(!wheel.reset(first, at(1)));
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(fired(&mut wheel, 5), [(5, 2)]);
    let third = wheel.insert(at(9), 3);
    assert_eq!(wheel.cancel(second), None);
    assert_eq!(wheel.cancel(third), Some(3));
}

#[test]
fn a_hundred_thousand_uses_of_one_slot_have_keys_of_their_own() {
    let mut wheel = small();
    let mut keys = std::collections::HashSet::new();
    for round in 0..100_000_u64 {
        let key = wheel.insert(at(round + 1), ());
        assert!(keys.insert(key), "{key:?} came twice");
        if round % 2 == 0 { wheel.cancel(key).unwrap() } else { drop(fired(&mut wheel, round + 1)) }
    }
    assert!(wheel.is_empty());
}

#[test]
fn the_sink_learns_the_key_and_the_deadline() {
    let mut wheel = small();
    let key = wheel.insert(at(33), 'x');
    let mut seen = None;
    wheel.advance(at(40), |key, deadline, payload| seen = Some((key, deadline, payload)));
    assert_eq!(seen, Some((key, at(33), 'x')));
    assert!(!wheel.contains(key));
}

#[test]
fn a_payload_can_be_read_and_changed_while_it_waits() {
    let mut wheel = small();
    let key = wheel.insert(at(2), vec![1]);
    wheel.get_mut(key).unwrap().push(2);
    assert_eq!(wheel.get(key), Some(&vec![1, 2]));
    assert_eq!(fired(&mut wheel, 2), [(2, vec![1, 2])]);
}

#[test]
fn sleeping_from_expiration_to_expiration_misses_nothing_and_wakes_once_per_level_at_most() {
    let mut wheel = small();
    let levels = 5;
    for deadline in [3, 70, 200, 999] {
        wheel.insert(at(deadline), deadline);
    }
    let mut seen = Vec::new();
    let mut wake_ups = 0;
    while let Some(now) = wheel.next_expiration() {
        wake_ups += 1;
        for (deadline, payload) in fired(&mut wheel, now.get()) {
            assert_eq!((deadline, payload), (now.get(), now.get()), "on the tick");
            seen.push(payload);
        }
    }
    assert_eq!(seen, [3, 70, 200, 999]);
    assert!(wake_ups <= 4 * levels, "{wake_ups} wake-ups");
}

#[test]
fn cancelling_the_earliest_timer_moves_the_next_expiration_on() {
    let mut wheel = small();
    let early = wheel.insert(at(2), ());
    wheel.insert(at(3), ());
    assert_eq!(wheel.next_expiration(), Some(at(2)));
    wheel.cancel(early);
    assert_eq!(wheel.next_expiration(), Some(at(3)));
}

#[test]
fn an_advance_over_empty_time_takes_no_steps() {
    // Tick by tick this would take longer than anybody waits.
    let mut wheel = small();
    assert_eq!(fired(&mut wheel, 1 << 50), []);
    wheel.insert(at((1 << 50) + (1 << 49)), ());
    assert_eq!(fired(&mut wheel, 1 << 52).len(), 1);
}

#[test]
fn a_sink_that_panics_loses_only_what_it_was_given() {
    for call in 0..6 {
        let dropped = Rc::new(RefCell::new(Vec::new()));
        let mut wheel = small();
        for (name, deadline) in [(0, 2), (1, 2), (2, 2), (3, 50), (4, 50), (5, 900)] {
            wheel.insert(at(deadline), Witness(name, Rc::clone(&dropped)));
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
        assert_eq!(wheel.len(), 6 - calls);
        assert_eq!(dropped.borrow().len(), calls);
        assert_eq!(fired(&mut wheel, 1_000).len(), 6 - calls);
        dropped.borrow_mut().sort_unstable();
        assert_eq!(*dropped.borrow(), [0, 1, 2, 3, 4, 5], "each once");
    }
}

#[test]
fn every_payload_is_dropped_once_whichever_way_it_leaves() {
    let dropped = Rc::new(RefCell::new(Vec::new()));
    let mut wheel = small();
    let mut keys = Vec::new();
    for name in 0..8 {
        keys.push(wheel.insert(at(u64::from(name) * 30), Witness(name, Rc::clone(&dropped))));
    }
    wheel.advance(at(30), |_, _, _| {});
    assert_eq!(*dropped.borrow(), [0, 1]);
    drop(wheel.cancel(keys[5]));
    assert_eq!(*dropped.borrow(), [0, 1, 5]);
    let kept = wheel.drain().next().unwrap();
    assert_eq!(dropped.borrow().len(), 7, "all but the one that was taken");
    drop(kept);
    wheel.insert(at(1), Witness(8, Rc::clone(&dropped)));
    wheel.insert(Tick::NEVER, Witness(9, Rc::clone(&dropped)));
    drop(wheel);
    dropped.borrow_mut().sort_unstable();
    assert_eq!(*dropped.borrow(), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_payload_that_panics_while_it_is_cleared_leaves_the_others_in_place() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 {
                resume_unwind(Box::new("a payload that panics"));
            }
        }
    }
    let mut wheel = small();
    for deadline in 0..10 {
        wheel.insert(at(deadline), Bomb(deadline == 4));
    }
    assert!(catch_unwind(AssertUnwindSafe(|| wheel.clear())).is_err());
    wheel.check();
    assert_eq!(wheel.len(), 5);
    assert_eq!(fired(&mut wheel, 10).len(), 5);
}

#[test]
fn clearing_makes_keys_stale_and_keeps_the_time() {
    let mut wheel = small();
    fired(&mut wheel, 77);
    let keys: Vec<Key> = (0..100).map(|payload| wheel.insert(at(payload * 7), payload)).collect();
    wheel.clear();
    wheel.check();
    assert!(wheel.is_empty());
    assert_eq!(wheel.now(), at(77));
    assert_eq!(wheel.next_expiration(), None);
    let new: Vec<Key> = (0..100).map(|payload| wheel.insert(at(100), payload)).collect();
    assert!(keys.iter().all(|key| !wheel.contains(*key)));
    assert!(new.iter().all(|key| wheel.contains(*key)));
}

#[test]
fn shrinking_keeps_timers_keys_and_time() {
    let mut wheel = Wheel::with_capacity(Geometry::default(), 1_000);
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
fn of_hundreds_in_each_bucket_every_one_leaves_once_whichever_way() {
    for (slots, reach) in [(3, 2), (4, 4), (256, 256)] {
        let mut wheel = Wheel::new(Geometry::new(slots, reach).unwrap());
        let mut pending: Vec<(Key, u64)> = Vec::new();
        for round in 0..30 {
            for n in 0..900 {
                let deadline = round + n * n % 29;
                pending.push((wheel.insert(at(deadline), deadline), deadline));
            }
            for n in 0..300 {
                let (key, deadline) = pending.swap_remove(n * 7919 % pending.len());
                assert_eq!(wheel.cancel(key), Some(deadline));
                let other = n * 104_729 % pending.len();
                let (key, deadline) = &mut pending[other];
                *deadline = round + 1 + n as u64 % 50;
                *wheel.get_mut(*key).unwrap() = *deadline;
                assert!(wheel.reset(*key, at(*deadline)));
            }
            wheel.check();
            let due = pending.iter().filter(|(_, deadline)| *deadline <= round).count();
            assert_eq!(fired(&mut wheel, round).len(), due);
            pending.retain(|(_, deadline)| *deadline > round);
            assert_eq!(wheel.len(), pending.len());
        }
        assert!(pending.iter().all(|(key, deadline)| wheel.get(*key) == Some(deadline)));
    }
}

#[test]
fn keys_are_eight_bytes_also_when_there_may_be_none() {
    assert_eq!(size_of::<Key>(), 8);
    assert_eq!(size_of::<Option<Key>>(), 8);
}

#[test]
fn payloads_of_any_size_and_alignment_do() {
    #[repr(align(64))]
    struct Wide([u8; 200]);
    let mut wide = small();
    let key = wide.insert(at(6), Wide([7; 200]));
    assert_eq!(wide.get(key).unwrap().0[199], 7);
    assert_eq!(fired(&mut wide, 6).len(), 1);
    let mut empty = small();
    for deadline in 0..1_000 {
        empty.insert(at(deadline), ());
    }
    assert_eq!(fired(&mut empty, 999).len(), 1_000);
}

#[test]
fn a_wheel_can_be_printed() {
    let mut wheel = small();
    wheel.insert(at(3), "not needed to be printable");
    let text = format!("{wheel:?}");
    assert!(text.contains("len: 1") && text.contains("t3"), "{text}");
}
