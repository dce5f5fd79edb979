//! Few timers: each is filed for its own deadline, and wakes the reaper once. Among many it is not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickless::{Batch, Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

const GEOMETRIES: [(u32, u32); 5] = [(3, 3), (3, 2), (20, 7), (64, 32), (1000, 999)];

/// What fired, and when.
type Log = Arc<Mutex<Vec<(u64, Duration)>>>;

/// An engine that notes when each payload fires. It has one shard, which the caller drives.
fn engine(builder: Builder) -> (Engine<u64>, ManualClock, Log) {
    let (clock, log) = (ManualClock::new(), Log::default());
    let (handler_clock, handler_log) = (clock.clone(), log.clone());
    let handler = move |batch: Batch<'_, u64>| {
        let now = handler_clock.elapsed();
        handler_log.lock().unwrap().extend(batch.map(|payload| (payload, now)));
    };
    (builder.shards(1).manual_clock(&clock).build_with_handler(handler).unwrap(), clock, log)
}

/// Takes turns whenever the engine asks for one, until it asks for none. Returns how many of them
/// came after a sleep.
fn serve(engine: &Engine<u64>, clock: &ManualClock) -> usize {
    let mut wakes = 0;
    loop {
        let turn = engine.turn(0).unwrap();
        if turn.more {
            continue;
        }
        let Some(next) = turn.next else { return wakes };
        clock.advance(next - engine.now());
        wakes += 1;
    }
}

/// How far ahead the third level reaches, in ticks.
fn near((_, reach): (u32, u32)) -> u64 {
    u64::from(reach).pow(3) / 2
}

#[test]
fn a_timer_that_is_alone_wakes_the_reaper_once() {
    for geometry @ (slots, reach) in GEOMETRIES {
        let (engine, clock, log) = engine(Builder::new().slots(slots).reach(reach));
        for delay in [1, 2, 3, 7, 33, 65, 800, 5000, 16_000].map(|n| n % near(geometry) + 1) {
            let due = clock.elapsed() + MS * delay as u32;
            engine.schedule_detached(MS * delay as u32, delay).unwrap();
            assert_eq!(serve(&engine, &clock), 1, "{geometry:?}: {delay} ticks");
            assert_eq!(log.lock().unwrap().pop(), Some((delay, due)));
        }
        assert_eq!(engine.stats().cascaded, 0, "{geometry:?}");
        engine.check().unwrap();
    }
}

#[test]
fn few_timers_in_different_slots_wake_the_reaper_once_each() {
    let (engine, clock, log) = engine(Builder::new());
    // One after the other comes into a later slot of the 64; the later ones are due earlier.
    let delays = (0..30_u64).map(|n| (30 - n) * 128 + n).collect::<Vec<_>>();
    for &delay in &delays {
        engine.schedule_detached(MS * delay as u32, delay).unwrap();
    }
    assert_eq!(serve(&engine, &clock), delays.len());
    assert_eq!(engine.stats().cascaded, 0);
    let fired = log.lock().unwrap();
    let expected = delays.iter().rev().map(|&delay| (delay, MS * delay as u32));
    assert!(fired.iter().copied().eq(expected), "{fired:?}");
}

#[test]
fn a_timer_is_not_filed_for_its_own_deadline_among_many_or_if_that_is_turned_off() {
    let opens_early = |builder: Builder, others: u64| {
        let (engine, clock, _log) = engine(builder);
        for payload in 0..others {
            engine.schedule_detached(MS * 30_000, payload).unwrap();
        }
        engine.schedule_detached(MS * 5000, 0).unwrap();
        let next = engine.turn(0).unwrap().next.unwrap();
        next - engine.now() < MS * 5000 - clock.elapsed()
    };
    assert!(!opens_early(Builder::new(), 0));
    assert!(opens_early(Builder::new(), 128));
    assert!(opens_early(Builder::new().exact_below(0), 0));
    assert!(!opens_early(Builder::new().exact_below(1000), 128));
}

/// Each is cancelled on a thread that schedules nothing, so that none finds a seat.
#[test]
fn what_is_cancelled_wakes_the_reaper_for_no_more_far_deadlines_than_there_are_slots() {
    let (engine, clock, _log) = engine(Builder::new());
    for n in 0..1000 {
        let handle = engine.schedule(MS * (10_000 + n), 0).unwrap();
        std::thread::scope(|scope| assert!(scope.spawn(|| handle.cancel()).join().unwrap()));
    }
    let wakes = serve(&engine, &clock);
    // Besides, each coarse bucket and each bucket below it opens.
    assert!(wakes <= 64 + 8, "{wakes} wake-ups for nothing");
}

/// How often the reaper wakes in 50 seconds in which fifty timers of five seconds are moved ten
/// times per second each, so that none fires: by a reset, or by a cancel and a new timer, which
/// takes the seat.
fn wakes_for_heartbeats(builder: Builder, is_reset: bool) -> usize {
    let (engine, clock, log) = engine(builder);
    let mut timers = Vec::new();
    let (mut wakes, mut next) = (0, None);
    for now in 0..60_000_u64 {
        if now < 100 && now % 2 == 0 {
            timers.push(Some(engine.schedule(MS * 5000, now).unwrap()));
            next = engine.turn(0).unwrap().next;
        } else if now >= 100 && now % 2 == 0 {
            let timer = &mut timers[now as usize % 100 / 2];
            if is_reset {
                timer.as_mut().unwrap().reset(MS * 5000).unwrap();
            } else {
                assert!(timer.take().unwrap().cancel());
                *timer = Some(engine.schedule(MS * 5000, now).unwrap());
            }
        }
        clock.advance(MS);
        if next.is_some_and(|next| next <= engine.now()) {
            // At first, each is where it was filed when nobody had moved it.
            wakes += usize::from(now >= 10_000);
            let mut turn = engine.turn(0).unwrap();
            while turn.more {
                turn = engine.turn(0).unwrap();
            }
            next = turn.next;
        }
    }
    assert!(log.lock().unwrap().is_empty() && timers.len() == 50);
    wakes
}

#[test]
fn timers_that_are_moved_all_the_time_wake_the_reaper_hardly_more_often_because_they_are_few() {
    for is_reset in [true, false] {
        let few = wakes_for_heartbeats(Builder::new(), is_reset);
        let many = wakes_for_heartbeats(Builder::new().exact_below(0), is_reset);
        assert!(few <= 2 * many, "{few} wake-ups, {many} if they are filed as many are");
    }
}
