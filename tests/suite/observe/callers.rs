//! Who schedules timers, as an inspector tells: the right places, in the right proportion, while it
//! was asked for.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::panic::Location;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tickless::inspect::Inspector;
use tickless::{Engine, ManualClock};

use super::inspector::ask;

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

const HOUR: Duration = Duration::from_secs(3600);

/// So many timers are some 500 samples.
const TIMERS: u64 = 32_000;

fn manual() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

fn told(inspector: &Inspector) -> Value {
    let connect = || TcpStream::connect(inspector.local_addr().unwrap()).ok();
    let request = b"GET /callers.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let reply = ask(connect, |stream| stream.write_all(request), || true).unwrap();
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The samples of each line of this file, and those of other files under zero.
fn samples(inspector: &Inspector) -> BTreeMap<u64, u64> {
    let mut samples = BTreeMap::new();
    for caller in told(inspector)["callers"].as_array().unwrap() {
        let is_here = caller["file"] == file!();
        let line = if is_here { caller["line"].as_u64().unwrap() } else { 0 };
        *samples.entry(line).or_default() += caller["samples"].as_u64().unwrap();
    }
    samples
}

/// The line of the call.
#[track_caller]
fn here() -> u64 {
    u64::from(Location::caller().line())
}

#[track_caller]
fn assert_near(samples: u64, timers: u64) {
    let expected = timers / 64;
    assert!((expected * 3 / 4..expected * 5 / 4).contains(&samples), "{samples} of {timers}");
}

#[test]
fn each_place_is_told_as_often_as_it_schedules() {
    let engine = manual();
    let inspector = engine.inspect(LOOPBACK).unwrap().with_callers().with_callers();
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
    let told = told(&inspector);
    assert_eq!((&told["sampled"], &told["every"]), (&true.into(), &64.into()));
    // Samples of one thread while the other noted one, and was perhaps suspended.
    let others = told["others"].as_u64().unwrap();
    let samples = samples(&inspector);
    assert_eq!(samples.keys().copied().collect::<Vec<_>>(), lines);
    let (expected, slack) = (3 * TIMERS / 64, 3 * TIMERS / 256);
    for samples in samples.into_values() {
        assert!(samples <= expected + slack && samples + others >= expected - slack, "{samples}");
    }
}

#[test]
fn doors_pass_their_callers_on_or_are_told_themselves() {
    let engine = manual();
    let inspector = engine.inspect(LOOPBACK).unwrap().with_callers();
    let waits = here() + 2;
    for _ in 0..TIMERS {
        assert!(engine.schedule_waitable(HOUR, || ()).unwrap().cancel());
    }
    for _ in 0..TIMERS {
        assert!(engine.every(HOUR, |_| ()).unwrap().cancel());
    }
    let samples = samples(&inspector);
    assert_near(samples[&waits], TIMERS);
    assert_near(samples[&0], TIMERS);
    assert_eq!(samples.len(), 2);
}

#[test]
fn nothing_is_noted_unless_somebody_wants_to_know() {
    let engine = manual();
    let inspector = engine.inspect(LOOPBACK).unwrap();
    let schedule = || {
        (0..TIMERS).for_each(|_| assert!(engine.schedule(HOUR, || ()).unwrap().cancel()));
    };
    schedule();
    let nothing = r#"{"sampled":false,"every":64,"callers":[],"others":0}"#;
    let nothing: Value = serde_json::from_str(nothing).unwrap();
    assert_eq!(told(&inspector), nothing);
    let [first, second] = [0, 1].map(|_| engine.inspect(LOOPBACK).unwrap().with_callers());
    schedule();
    drop(first);
    schedule();
    drop(second);
    let noted = samples(&inspector);
    schedule();
    assert_eq!(told(&inspector)["sampled"], false);
    assert_eq!(samples(&inspector), noted);
    assert_near(noted.into_values().sum(), 2 * TIMERS);
}

#[test]
fn short_lived_threads_are_not_told_more_often_than_others() {
    let engine = manual();
    let inspector = engine.inspect(LOOPBACK).unwrap().with_callers();
    for _ in 0..2_000 {
        let schedule = || engine.schedule_detached(HOUR, || ()).unwrap();
        thread::scope(|threads| _ = threads.spawn(schedule));
    }
    let samples: u64 = samples(&inspector).into_values().sum();
    // 16 are expected; each of the first timers would be 2000.
    assert!((1..60).contains(&samples), "{samples}");
}
