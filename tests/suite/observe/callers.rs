//! Who schedules timers: the right places, in the right proportion, while that is sampled.

use std::collections::BTreeMap;
use std::panic::Location;
use std::thread;
use std::time::Duration;

use tickless::{Callers, Engine, ManualClock};

const HOUR: Duration = Duration::from_secs(3600);

/// So many timers are some 500 samples.
const TIMERS: u64 = 32_000;

fn manual() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

fn sampled() -> Engine {
    let engine = manual();
    engine.sample_callers(true);
    engine
}

/// The samples of each line of this file, and those of other files under zero.
fn samples(engine: &Engine) -> BTreeMap<u32, u64> {
    let mut samples = BTreeMap::new();
    for (place, count) in engine.callers().samples {
        let line = if place.file() == file!() { place.line() } else { 0 };
        *samples.entry(line).or_default() += count;
    }
    samples
}

/// The line of the call.
#[track_caller]
fn here() -> u32 {
    Location::caller().line()
}

#[track_caller]
fn assert_near(samples: u64, timers: u64) {
    let expected = timers / Callers::EVERY;
    assert!((expected * 3 / 4..expected * 5 / 4).contains(&samples), "{samples} of {timers}");
}

#[test]
fn each_place_is_told_as_often_as_it_schedules() {
    let engine = sampled();
    let lines = thread::scope(|threads| {
        let schedule = || {
            let mut scope = engine.scope();
            let mut lines = [0; 3];
            for _ in 0..TIMERS {
                // In turns, so that a sample at regular intervals would see only one of them.
                lines[0] = here() + 1;
                engine.schedule(HOUR, || ()).unwrap().cancel();
                lines[1] = here() + 1;
                engine.schedule_detached(HOUR, || ()).unwrap();
                lines[2] = here() + 1;
                let key = scope.schedule(HOUR, || ()).unwrap();
                scope.cancel(key);
            }
            lines
        };
        let other = threads.spawn(schedule);
        assert_eq!(schedule(), other.join().unwrap());
        schedule()
    });
    // Samples of one thread while the other noted one, and was perhaps suspended.
    let Callers { is_sampled: true, others, .. } = engine.callers() else { panic!("it is off") };
    let samples = samples(&engine);
    assert_eq!(samples.keys().copied().collect::<Vec<_>>(), lines);
    let (expected, slack) = (3 * TIMERS / 64, 3 * TIMERS / 256);
    for samples in samples.into_values() {
        assert!(samples <= expected + slack && samples + others >= expected - slack, "{samples}");
    }
}

#[test]
fn doors_pass_their_callers_on_or_are_told_themselves() {
    let engine = sampled();
    let waits = here() + 2;
    for _ in 0..TIMERS {
        assert!(engine.schedule_waitable(HOUR, || ()).unwrap().cancel());
    }
    for _ in 0..TIMERS {
        assert!(engine.every(HOUR, |_| ()).unwrap().cancel());
    }
    let samples = samples(&engine);
    assert_near(samples[&waits], TIMERS);
    assert_near(samples[&0], TIMERS);
    assert_eq!(samples.len(), 2);
}

#[test]
fn nothing_is_noted_unless_it_is_switched_on() {
    let engine = manual();
    let schedule = || {
        (0..TIMERS).for_each(|_| assert!(engine.schedule(HOUR, || ()).unwrap().cancel()));
    };
    schedule();
    assert_eq!(engine.callers(), Callers::default());
    engine.sample_callers(true);
    schedule();
    // What was noted stays.
    engine.sample_callers(true);
    schedule();
    engine.sample_callers(false);
    let noted = engine.callers();
    schedule();
    assert_eq!(engine.callers(), noted);
    assert!(!noted.is_sampled);
    assert_near(noted.samples.into_values().sum(), 2 * TIMERS);
}

#[test]
fn short_lived_threads_are_not_told_more_often_than_others() {
    let engine = sampled();
    for _ in 0..2_000 {
        let schedule = || engine.schedule_detached(HOUR, || ()).unwrap();
        thread::scope(|threads| _ = threads.spawn(schedule));
    }
    let samples: u64 = samples(&engine).into_values().sum();
    // 16 are expected; each of the first timers would be 2000.
    assert!((1..60).contains(&samples), "{samples}");
}
