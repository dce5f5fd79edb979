//! What a loop asks of the wheel before it sleeps or fills it: the earliest deadline in a few
//! steps, and room.

use std::collections::BTreeMap;

use support::random::Random;
use tickless_wheel::{Geometry, Tick, Wheel};

fn at(count: u64) -> Tick {
    Tick::new(count)
}

#[test]
fn a_peek_in_a_few_steps_is_right_or_says_before_when() {
    let mut random = Random::new(5);
    for most in [0, 1, 2, 7, 100] {
        let (mut wheel, mut due) = (Wheel::new(Geometry::new(4, 4).unwrap()), BTreeMap::new());
        let (mut found, mut bounds) = (0, 0);
        for now in 1..2_000 {
            for _ in 0..random.below(3) {
                let deadline = now + 1 + random.below(300);
                due.insert(wheel.insert(at(deadline), ()), deadline);
            }
            while let Some((key, ..)) = wheel.pop_due(at(now)) {
                due.remove(&key);
            }
            let first = due.values().min().copied();
            match wheel.peek_within(most) {
                None => assert_eq!(first, None),
                Some((time, Some(key))) => {
                    assert_eq!((first, due.get(&key)), (Some(time.get()), Some(&time.get())));
                    found += 1;
                }
                Some((time, None)) => {
                    assert!(Some(time.get()) <= first && time.get() > now);
                    assert_eq!(wheel.next_expiration(), Some(time));
                    bounds += 1;
                }
            }
        }
        assert!(found > 0 && (bounds > 0 || most == 100), "{most}: {found}, {bounds}");
    }
}

#[test]
fn there_is_room_for_as_many_as_was_reserved() {
    for count in [0, 1, 10, 511, 512, 513, 20_000] {
        let mut wheel = Wheel::<u64>::default();
        wheel.reserve(count);
        let capacity = wheel.capacity();
        assert!(capacity >= count, "{capacity} for {count}");
        (0..count as u64).for_each(|n| _ = wheel.insert(at(n * 7), n));
        assert!(wheel.capacity() >= count && wheel.len() == count);
        wheel.clear();
        wheel.shrink_to_fit();
        assert_eq!(wheel.capacity(), 0);
    }
}
