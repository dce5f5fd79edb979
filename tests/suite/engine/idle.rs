//! Idle: after however long a pause, what is due is not kept waiting. (That nothing wakes up
//! meanwhile is in `tests/realtime/idle.rs`.)

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::mpsc;
use tickless::{Batch, Builder, Engine, ManualClock};

const PATIENCE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3600);

const GEOMETRIES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (1000, 999)];

#[test]
fn a_deadline_in_the_past_fires_at_once() {
    let engine = Engine::builder().shards(2).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let long_ago = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
    for deadline in [long_ago, Instant::now()] {
        let sender = sender.clone();
        let _handle = engine.schedule(deadline, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    let zero = sender.clone();
    engine.schedule_detached(Duration::ZERO, move || zero.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn an_earlier_timer_wakes_a_reaper_that_sleeps_for_a_later_one() {
    let engine = Engine::builder().shards(1).takeover(None).build().unwrap();
    engine.schedule_detached(HOUR, || ()).unwrap();
    let (sender, receiver) = mpsc::channel();
    for ms in [50, 20, 5, 1] {
        let sender = sender.clone();
        let delay = Duration::from_millis(ms);
        engine.schedule_detached(delay, move || sender.send(ms).unwrap()).unwrap();
    }
    // In which order depends on when this thread has scheduled which.
    let mut fired: Vec<_> = (0..4).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
    fired.sort_unstable();
    assert_eq!(fired, [1, 5, 20, 50]);
    assert_eq!(engine.stop().unwrap().len(), 1);
}

/// What fired, in order, and when.
type Log = Arc<Mutex<Vec<(u64, Duration)>>>;

fn manual(builder: Builder) -> (Engine<u64>, ManualClock, Log) {
    let clock = ManualClock::new();
    let log = Log::default();
    let (handler_log, handler_clock) = (log.clone(), clock.clone());
    let handler = move |batch: Batch<'_, u64>| {
        let now = handler_clock.elapsed();
        handler_log.lock().unwrap().extend(batch.map(|payload| (payload, now)));
    };
    (builder.shards(1).manual_clock(&clock).build_with_handler(handler).unwrap(), clock, log)
}

#[test]
fn what_is_past_fires_in_the_next_turn_without_any_time_going_by() {
    for (slots, reach) in GEOMETRIES {
        let (engine, clock, log) = manual(Builder::new().slots(slots).reach(reach));
        let start = engine.now();
        engine.advance(HOUR).unwrap();
        for (payload, deadline) in (0..).zip([start, start + HOUR / 2, engine.now()]) {
            drop(engine.schedule(deadline, payload).unwrap());
        }
        engine.schedule_detached(Duration::ZERO, 3).unwrap();
        assert_eq!(engine.turn(0).unwrap().fired, 4);
        assert!(log.lock().unwrap().iter().all(|&(_, at)| at == clock.elapsed()));
    }
}

#[test]
fn a_delay_too_long_to_represent_never_fires_to_the_end_of_time() {
    // 65537 divides 2^64 - 1: the last nanosecond of time begins a tick of that width.
    let ticks = [1, 65_537, 1_000_000, 3_600_000_000_000, u64::MAX].map(Duration::from_nanos);
    for tick in ticks {
        for (slots, reach) in GEOMETRIES {
            let builder = Builder::new().tick(tick).slots(slots).reach(reach);
            let (engine, clock, log) = manual(builder);
            engine.advance(Duration::from_secs(5)).unwrap();
            let never = engine.schedule(Duration::MAX, 1).unwrap();
            engine.schedule_detached(Duration::from_secs(u64::MAX), 2).unwrap();
            engine.schedule_detached(HOUR * 24, 3).unwrap();
            assert_eq!(never.deadline(), None);
            engine.advance(Duration::MAX).unwrap();
            assert_eq!(clock.elapsed(), Duration::from_nanos(u64::MAX), "the end of time");
            let turn = engine.turn(0).unwrap();
            assert_eq!((turn.fired, turn.more, turn.next), (0, false, None), "tick {tick:?}");
            let fired: Vec<_> = log.lock().unwrap().iter().map(|&(payload, _)| payload).collect();
            assert_eq!(fired, [3], "{tick:?}");
            assert!(never.cancel());
        }
    }
}

#[test]
fn after_hours_without_a_turn_short_timers_are_on_time_and_in_order() {
    for (slots, reach) in GEOMETRIES {
        for tick in [Duration::from_micros(1), Duration::from_millis(1), Duration::from_secs(7)] {
            let builder = Builder::new().tick(tick).slots(slots).reach(reach);
            let (engine, clock, log) = manual(builder);
            for pause in [HOUR * 3, HOUR * 24, Duration::from_millis(1), HOUR * 8760] {
                // No turn: the shard's clock stays behind, as it does while a reaper sleeps.
                clock.advance(pause + Duration::from_nanos(123));
                log.lock().unwrap().clear();
                let now = clock.elapsed();
                for n in [5, 1, 40, 2, 900] {
                    engine.schedule_detached(tick * n, u64::from(n)).unwrap();
                }
                engine.check().unwrap();
                engine.advance(tick * 1000).unwrap();
                let log = log.lock().unwrap();
                let order: Vec<u64> = log.iter().map(|&(payload, _)| payload).collect();
                assert_eq!(order, [1, 2, 5, 40, 900], "{slots} {reach} {tick:?}");
                for &(n, at) in log.iter() {
                    let late = at - (now + tick * n as u32);
                    assert!(late < tick, "{late:?} late with ticks of {tick:?}");
                }
            }
        }
    }
}
