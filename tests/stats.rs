//! Stats: every number, after a story of which each number is known.

use std::panic;
use std::time::Duration;

use tickless::{Batch, Builder, Engine, ManualClock, Stats};

const MS: Duration = Duration::from_millis(1);

/// A driven engine of one shard with ticks of 1 ms. A handler that takes a zero panics with it.
fn manual() -> (Engine<u64>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Builder::new().tick(MS).shards(1).exact_below(0).manual_clock(&clock);
    let take_all = |batch: Batch<'_, u64>| {
        for payload in batch {
            if payload == 0 {
                panic::resume_unwind(Box::new("planned"));
            }
        }
    };
    (builder.build_with_handler(take_all).unwrap(), clock)
}

/// All but the lateness, which has tests of its own.
fn counts(engine: &Engine<u64>) -> [(&'static str, u64); 10] {
    let Stats { scheduled, seated, cancelled, reset, fired, .. } = engine.stats();
    let Stats { returned, pending, cascaded, panicked, wake_ups, .. } = engine.stats();
    [
        ("scheduled", scheduled),
        ("seated", seated),
        ("cancelled", cancelled),
        ("reset", reset),
        ("fired", fired),
        ("returned", returned),
        ("pending", pending),
        ("cascaded", cascaded),
        ("panicked", panicked),
        ("wake-ups", wake_ups),
    ]
}

/// Asserts which counts have moved since `before`, and by how much; the others have not.
fn assert_moved(
    engine: &Engine<u64>,
    before: &mut [(&'static str, u64); 10],
    expected: &[(&str, i64)],
) {
    let now = counts(engine);
    for ((name, now), (_, before)) in now.iter().zip(before.iter()) {
        let by = expected.iter().find(|(expected, _)| expected == name).map_or(0, |&(_, by)| by);
        assert_eq!(now.wrapping_sub(*before) as i64, by, "{name} after {expected:?}");
    }
    *before = now;
}

#[test]
fn each_operation_moves_its_own_counts_and_no_others() {
    let (engine, clock) = manual();
    let before = &mut counts(&engine);
    assert!(before.iter().all(|&(_, count)| count == 0));

    let handle = engine.schedule(MS * 5, 1).unwrap();
    assert_moved(&engine, before, &[("scheduled", 1), ("pending", 1)]);
    assert!(handle.cancel());
    assert_moved(&engine, before, &[("cancelled", 1), ("pending", -1)]);
    let mut handle = engine.schedule(MS * 5, 2).unwrap();
    assert_moved(&engine, before, &[("scheduled", 1), ("seated", 1), ("pending", 1)]);
    assert!(handle.reset(MS * 7).is_ok());
    assert_moved(&engine, before, &[("reset", 1)]);
    assert!(handle.reset(MS * 3).is_ok());
    assert_moved(&engine, before, &[("reset", 1)]);

    clock.advance(MS * 3);
    assert_eq!(engine.turn(0).unwrap().fired, 1);
    assert_moved(&engine, before, &[("fired", 1), ("pending", -1)]);
    assert!(handle.reset(MS).is_err() && !handle.cancel());
    assert_moved(&engine, before, &[]);

    (0..4).for_each(|payload| engine.schedule_detached(MS * 100, payload).unwrap());
    // One takes the seat that the second reset left behind, in a bucket that opens early.
    assert_moved(&engine, before, &[("scheduled", 4), ("seated", 1), ("pending", 4)]);
    clock.advance(MS * 96);
    engine.turn(0).unwrap();
    assert_moved(&engine, before, &[("cascaded", 5)]);
    clock.advance(MS * 4);
    assert_eq!(engine.turn(0).unwrap().fired, 4);
    assert_moved(&engine, before, &[("fired", 4), ("panicked", 1), ("pending", -4)]);

    engine.schedule_detached(MS, 5).unwrap();
    assert_moved(&engine, before, &[("scheduled", 1), ("pending", 1)]);
    assert_eq!(engine.stop().unwrap(), [5]);
    assert_moved(&engine, before, &[("returned", 1), ("pending", -1)]);
    assert!(engine.schedule(MS, 6).is_err());
    assert_moved(&engine, before, &[]);
}

#[test]
fn lateness_is_the_time_from_the_tick_to_the_handover() {
    let (engine, clock) = manual();
    assert_eq!(engine.stats().lateness.count, 0);
    (1..=2).for_each(|payload| engine.schedule_detached(MS * 5, payload).unwrap());
    (1..=3).for_each(|payload| engine.schedule_detached(MS * 7, payload).unwrap());
    clock.advance(MS * 10);
    assert_eq!(engine.turn(0).unwrap().fired, 5);
    let lateness = engine.stats().lateness;
    assert_eq!((lateness.count, lateness.max), (5, MS * 5));
    assert!(lateness.p50 >= MS * 3 && lateness.p50 < MS * 33 / 10, "{lateness:?}");
    assert_eq!([lateness.p99, lateness.p999], [MS * 5; 2]);

    engine.schedule_detached(MS, 1).unwrap();
    clock.advance(MS);
    assert_eq!(engine.turn(0).unwrap().fired, 1);
    let later = engine.stats().lateness;
    assert_eq!((later.count, later.max), (6, MS * 5), "that one was not late at all");
}
