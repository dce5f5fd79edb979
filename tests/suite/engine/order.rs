//! Order: what is due is handed over in order of its tick, however late the turn is.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use support::random::Random;
use support::scaled;
use tickless::{Batch, Builder, Engine, ManualClock};

const GEOMETRIES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (1000, 999)];

const TICK: Duration = Duration::from_millis(1);

/// What was handed over, in order, and in what batches.
type Log = Arc<Mutex<Vec<u64>>>;

/// An engine whose payload is its deadline, in nanoseconds since the engine began, and whose
/// handler compares the two.
fn engine((slots, reach): (u32, u32)) -> (Engine<u64>, ManualClock, Log) {
    let clock = ManualClock::new();
    let (log, begin) = (Log::default(), Arc::new(OnceLock::new()));
    let (handler_log, began) = (log.clone(), begin.clone());
    let handler = move |mut batch: Batch<'_, u64>| {
        let mut log = handler_log.lock().unwrap();
        while let Some(due) = batch.next_due() {
            let deadline = *began.get().unwrap() + Duration::from_nanos(due.payload);
            assert_eq!(due.deadline, deadline, "the batch knows the deadline");
            log.push(due.payload);
        }
    };
    let builder = Builder::new().tick(TICK).slots(slots).reach(reach).shards(1);
    let engine = builder.manual_clock(&clock).build_with_handler(handler).unwrap();
    begin.set(engine.now()).unwrap();
    (engine, clock, log)
}

/// A delay of whole ticks, on one level as likely as on another.
fn some_delay(random: &mut Random) -> Duration {
    let bits = random.below(30);
    TICK * (random.below(1 << bits) as u32 + 1)
}

/// The payload of a timer with this delay from now on.
fn payload(clock: &ManualClock, delay: Duration) -> u64 {
    (clock.elapsed() + delay).as_nanos() as u64
}

fn schedule_some(engine: &Engine<u64>, clock: &ManualClock, random: &mut Random, n: u64) {
    for _ in 0..n {
        let delay = some_delay(random);
        engine.schedule_detached(delay, payload(clock, delay)).unwrap();
    }
}

fn settle(engine: &Engine<u64>) -> usize {
    let mut fired = 0;
    loop {
        let turn = engine.turn(0).unwrap();
        fired += turn.fired;
        if !turn.more {
            return fired;
        }
    }
}

#[test]
fn one_turn_that_is_late_by_all_levels_hands_over_in_order_of_deadlines() {
    for geometry in GEOMETRIES {
        let (engine, clock, log) = engine(geometry);
        schedule_some(&engine, &clock, &mut Random::new(1), scaled(2000));
        clock.advance(TICK * (1 << 30));
        assert_eq!(engine.turn(0).unwrap().fired as u64, scaled(2000), "in one turn");
        assert!(log.lock().unwrap().is_sorted(), "{geometry:?}");
    }
}

#[test]
fn each_of_many_late_turns_hands_over_in_order_while_timers_come_in_between() {
    for geometry in GEOMETRIES {
        let (engine, clock, log) = engine(geometry);
        let random = &mut Random::new(2);
        let mut expected = 0;
        for _ in 0..scaled(60) {
            schedule_some(&engine, &clock, random, 30);
            expected += 30;
            clock.advance(some_delay(random));
            let fired = settle(&engine);
            let mut log = log.lock().unwrap();
            assert_eq!(log.len(), fired);
            assert!(log.is_sorted(), "{geometry:?}");
            assert!(log.iter().all(|&deadline| deadline <= payload(&clock, Duration::ZERO)));
            expected -= fired;
            log.clear();
            assert_eq!(engine.len(), expected);
        }
        clock.advance(TICK * (1 << 30));
        assert_eq!(settle(&engine), expected);
        assert!(log.lock().unwrap().is_sorted(), "{geometry:?}");
    }
}

#[test]
fn seats_and_resets_do_not_disturb_the_order() {
    for geometry in GEOMETRIES {
        let (engine, clock, log) = engine(geometry);
        let random = &mut Random::new(3);
        for _ in 0..scaled(500) {
            let (first, last) = (some_delay(random), some_delay(random));
            let doomed = engine.schedule(first, 0).unwrap();
            // The payload says when it fires in the end: after the reset.
            let mut kept = engine.schedule(first, payload(&clock, last)).unwrap();
            assert!(doomed.cancel());
            assert!(kept.reset(last).is_ok());
            schedule_some(&engine, &clock, random, 1);
        }
        clock.advance(TICK * (1 << 30));
        assert_eq!(settle(&engine) as u64, scaled(1000));
        assert!(log.lock().unwrap().is_sorted(), "{geometry:?}");
    }
}

#[test]
fn a_bounded_turn_stops_at_its_bound_and_the_next_goes_on_in_order() {
    for geometry in GEOMETRIES {
        let (engine, clock, log) = engine(geometry);
        let random = &mut Random::new(4);
        // Of more than 4,096 that are due at one tick, the rest may come after others.
        let many = scaled(1000).min(4000);
        schedule_some(&engine, &clock, random, many);
        // Some at one and the same tick, so that a bound falls inside a bucket.
        let same = payload(&clock, TICK * 77);
        for _ in 0..many {
            engine.schedule_detached(TICK * 77, same).unwrap();
        }
        clock.advance(TICK * (1 << 30));
        let mut left = 2 * many as usize;
        while left > 0 {
            let bound = random.below(700) as usize;
            let turn = engine.turn_at_most(0, bound).unwrap();
            assert_eq!(turn.fired, bound.min(left), "{geometry:?}");
            left -= turn.fired;
            assert!(turn.more || left == 0, "what is left is announced");
            assert_eq!(engine.len(), left);
            engine.check().unwrap();
        }
        assert!(log.lock().unwrap().is_sorted(), "{geometry:?}");
    }
}

#[test]
fn what_a_bounded_turn_leaves_of_the_last_bucket_is_announced() {
    let (engine, clock, _log) = engine((64, 32));
    let same = payload(&clock, TICK * 7);
    for _ in 0..10 {
        engine.schedule_detached(TICK * 7, same).unwrap();
    }
    clock.advance(TICK * 7);
    for (fired, more) in [(0, true), (4, true), (4, true), (2, false)] {
        let turn = engine.turn_at_most(0, fired).unwrap();
        assert_eq!((turn.fired, turn.more), (fired, more), "{} are left", engine.len());
    }
    assert!(!engine.turn_at_most(0, 4).unwrap().more);
}

#[test]
fn a_batch_says_how_much_is_left_in_it() {
    let clock = ManualClock::new();
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let seen = lengths.clone();
    let handler = move |mut batch: Batch<'_, u64>| {
        let mut seen = seen.lock().unwrap();
        seen.push((batch.len(), batch.size_hint(), batch.is_empty()));
        while batch.next().is_some() {
            seen.push((batch.len(), batch.size_hint(), batch.is_empty()));
        }
    };
    let engine = Builder::new().manual_clock(&clock).shards(1).build_with_handler(handler).unwrap();
    for payload in 0..2 {
        engine.schedule_detached(TICK, payload).unwrap();
    }
    assert_eq!(engine.advance(TICK), Ok(2));
    let expected = [(2, (2, Some(2)), false), (1, (1, Some(1)), false), (0, (0, Some(0)), true)];
    assert_eq!(*lengths.lock().unwrap(), expected);
}

#[test]
fn a_deadline_between_ticks_is_handed_over_as_the_tick_that_it_was_rounded_up_to() {
    let clock = ManualClock::new();
    let start = Instant::now();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler_seen = seen.clone();
    let handler = move |mut batch: Batch<'_, u64>| {
        handler_seen.lock().unwrap().extend(std::iter::from_fn(|| batch.next_due()));
    };
    let builder = Builder::new().tick(TICK * 10).manual_clock(&clock).shards(1);
    let engine = builder.build_with_handler(handler).unwrap();
    let zero = engine.now();
    assert!(zero >= start);
    let handle = engine.schedule(TICK * 21, 1).unwrap();
    assert_eq!(handle.deadline(), Some(zero + TICK * 30));
    drop(handle);
    engine.advance(TICK * 30).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].payload, seen[0].deadline), (1, zero + TICK * 30));
}
