//! Where Kafka's wheel files a delay: worked examples with a tick of 1 ms and 20 buckets per
//! level, all of them within reach.

use tickless_wheel::{Geometry, Place, Tick, Wheel};

fn kafka() -> Geometry {
    Geometry::new(20, 20).unwrap()
}

fn place(now_ms: u64, delay_ms: u64) -> Place {
    kafka().place(Tick::new(now_ms + delay_ms), Tick::new(now_ms))
}

#[test]
fn levels_are_one_twenty_and_four_hundred_milliseconds_wide() {
    assert_eq!([1, 2, 3].map(|level| kafka().width(level)), [1, 20, 400]);
}

#[test]
fn each_delay_is_filed_under_its_level_and_bucket() {
    let examples = [
        // now, delay, level, bucket
        (0, 2, 1, 2),
        (2, 8, 1, 10),
        (2, 19, 1, 1),
        (0, 350, 2, 17),
        (0, 450, 3, 1),
        (0, 446, 3, 1),
        (0, 473, 3, 1),
        (0, 237, 2, 11),
    ];
    for (now_ms, delay_ms, level, bucket) in examples {
        let place = place(now_ms, delay_ms);
        assert_eq!((place.level, place.slot), (level, bucket), "{delay_ms} ms from {now_ms}");
    }
}

#[test]
fn a_delay_of_237_expires_with_its_bucket_at_220() {
    assert_eq!(place(0, 237).expiration, Tick::new(220));
}

#[test]
fn a_delay_of_450_comes_down_at_400_and_440_and_fires_at_450() {
    let deadline = Tick::new(450);
    assert_eq!(place(0, 450).expiration, Tick::new(400));
    let second = kafka().place(deadline, Tick::new(400));
    assert_eq!((second.level, second.expiration), (2, Tick::new(440)));
    let first = kafka().place(deadline, Tick::new(440));
    assert_eq!((first.level, first.expiration), (1, Tick::new(450)));

    let mut wheel = Wheel::new(kafka());
    wheel.insert(deadline, ());
    let mut wake_ups = Vec::new();
    while let Some(at) = wheel.next_expiration() {
        let fired = wheel.advance(at, |_, _, ()| {});
        wake_ups.push((at.get(), fired));
    }
    assert_eq!(wake_ups, [(400, 0), (440, 0), (450, 1)]);
}
