//! Saturation: a shard that is far behind is counted when that begins, and no more until it ends.

use std::time::Duration;

use tickless::{Batch, Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// An engine of one shard that is saturated when it is more than 100 ms behind. Its payloads are
/// milliseconds that their handling takes.
fn manual() -> (Engine<u32>, ManualClock) {
    let clock = ManualClock::new();
    let of_handler = clock.clone();
    let builder = Builder::new().shards(1).manual_clock(&clock).saturation(MS * 100);
    let handler = move |batch: Batch<'_, u32>| {
        batch.for_each(|ms| of_handler.advance(MS * ms));
    };
    (builder.build_with_handler(handler).unwrap(), clock)
}

/// How often it became saturated, and whether it is.
fn saturation(engine: &Engine<u32>) -> (u64, usize) {
    (engine.stats().saturations, engine.stats().saturated)
}

#[test]
fn a_shard_is_saturated_once_it_is_behind_by_more_than_the_limit() {
    let (engine, clock) = manual();
    for (late_ms, expected) in [(0, 0), (100, 0), (101, 1), (5000, 2), (3, 2)] {
        engine.schedule_detached(MS, 0).unwrap();
        clock.advance(MS * (1 + late_ms));
        assert_eq!(engine.turn(0).unwrap().fired, 1);
        assert_eq!(saturation(&engine), (expected, 0), "{late_ms} ms late, then at rest");
    }
}

#[test]
fn it_stays_saturated_as_long_as_turns_leave_something_due() {
    let (engine, clock) = manual();
    // Each takes longer than there is until the next.
    for n in 1..=50 {
        engine.schedule_detached(MS * 10 * n, 30).unwrap();
    }
    clock.advance(MS * 10);
    let mut seen = Vec::new();
    while !engine.is_empty() {
        let next = engine.turn(0).unwrap().next;
        assert!(engine.is_empty() || next.is_some_and(|next| next <= engine.now()));
        seen.push((next.is_some(), saturation(&engine)));
    }
    // 1 of them, the 3 that came due meanwhile, the 9 of which the first then is 80 ms late, and
    // the rest.
    let (rest, ends) = ((true, (0, 0)), (false, (1, 0)));
    assert_eq!(seen, [rest, rest, rest, (true, (1, 1)), ends]);
}

#[test]
fn a_turn_that_may_not_finish_does_not_end_it() {
    let (engine, clock) = manual();
    (0..10).for_each(|_| engine.schedule_detached(MS, 0).unwrap());
    clock.advance(MS * 500);
    for _ in 0..9 {
        assert_eq!(engine.turn_at_most(0, 1).unwrap().fired, 1);
        assert_eq!(saturation(&engine), (1, 1));
    }
    assert_eq!(engine.turn_at_most(0, 9).unwrap().fired, 1);
    assert_eq!(saturation(&engine), (1, 0));
}

#[test]
fn deadlines_that_were_past_already_saturate_nobody() {
    let (engine, clock) = manual();
    let long_ago = engine.now();
    clock.advance(MS * 1_000_000);
    drop(engine.schedule(long_ago, 0).unwrap());
    assert_eq!(engine.turn(0).unwrap().fired, 1);
    assert_eq!(saturation(&engine), (0, 0));
    assert_eq!(engine.stats().lateness.max, MS * 1_000_000, "late it is");
}

#[test]
fn stopping_ends_it() {
    let (engine, clock) = manual();
    (0..2).for_each(|_| engine.schedule_detached(MS, 0).unwrap());
    clock.advance(MS * 500);
    engine.turn_at_most(0, 1).unwrap();
    assert_eq!(saturation(&engine), (1, 1));
    assert_eq!(engine.stop().unwrap().len(), 1);
    assert_eq!(saturation(&engine), (1, 0));
}

#[test]
fn unless_said_otherwise_a_second_is_the_limit() {
    let clock = ManualClock::new();
    let builder = Builder::new().shards(1).manual_clock(&clock);
    let engine = builder.build_typed(|batch: Batch<'_, u32>| batch.for_each(drop)).unwrap();
    for (late_ms, expected) in [(1000, 0), (1001, 1)] {
        engine.schedule_detached(MS, 0).unwrap();
        clock.advance(MS * (1 + late_ms));
        engine.turn(0).unwrap();
        assert_eq!(saturation(&engine), (expected, 0));
    }
}
