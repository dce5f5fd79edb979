//! What serde writes of an engine, letter by letter: users rely on the names.

use std::time::Duration;

use serde_json::{Value, json};
use support::patience::PATIENCE;
use support::slow::Slow;
use tickless::{Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// An engine of two shards after a story: one of its timers was half a second late.
fn storied() -> Engine {
    let clock = ManualClock::new();
    let builder = Engine::builder().shards(2).manual_clock(&clock);
    let engine = builder.build().unwrap();
    engine.bind_thread(0).unwrap();
    engine.schedule(MS * 700, || ()).unwrap().cancel();
    engine.schedule_detached(MS * 500, || ()).unwrap();
    clock.advance(MS * 1_000);
    engine.turn(0).unwrap();
    engine.bind_thread(1).unwrap();
    for delay in [MS * 3, MS * 4, MS * 70_000, Duration::MAX] {
        engine.schedule_detached(delay, || ()).unwrap();
    }
    clock.advance(MS * 3);
    engine
}

#[test]
fn statistics_are_written_as_documented() {
    let text = serde_json::to_string(&storied().stats()).unwrap();
    let expected = [
        r#"{"scheduled":6,"seated":0,"cancelled":1,"reset":0,"fired":1,"unended":0,"returned":0,"#,
        r#""pending":4,"cascaded":0,"dead":0,"panicked":0,"#,
        r#""takeovers":0,"stuck":0,"overdue_ns":0,"wake_ups":0,"#,
        r#""lateness":{"count":1,"p50_ns":500000000,"p99_ns":500000000,"#,
        r#""p999_ns":500000000,"max_ns":500000000}}"#,
    ];
    assert_eq!(text, expected.concat());
}

#[test]
fn a_snapshot_is_written_as_a_summary() {
    let text = serde_json::to_string(&storied().snapshot()).unwrap();
    let due = |span: &str, timers| format!(r#"{{"due":{span},"timers":{timers}}}"#);
    let within = |ms: u64| format!(r#""within","within_ns":{ms}000000"#);
    let by_due_time = [
        due(r#""overdue","within_ns":null"#, 1),
        due(&within(1), 0),
        due(&within(10), 1),
        due(&within(100), 0),
        due(&within(1_000), 0),
        due(&within(10_000), 0),
        due(&within(60_000), 0),
        due(&within(600_000), 1),
        due(&within(3_600_000), 0),
        due(&within(86_400_000), 0),
        due(r#""later","within_ns":null"#, 0),
        due(r#""never","within_ns":null"#, 1),
    ];
    let by_level = [
        r#"{"level":1,"width_ns":1000000,"timers":2}"#,
        r#"{"level":4,"width_ns":32768000000,"timers":1}"#,
        // Longer than 64 bits can say.
        r#"{"level":11,"width_ns":18446744073709551615,"timers":1}"#,
    ];
    let (by_level, by_due_time) = (by_level.join(","), by_due_time.join(","));
    let expected = format!(
        r#"{{"pending":4,"by_level":[{by_level}],"by_due_time":[{by_due_time}],"by_shard":[0,4]}}"#
    );
    assert_eq!(text, expected);
}

#[test]
fn a_listing_has_each_timer_with_its_distance() {
    let snapshot = storied().snapshot();
    let mut listed = serde_json::to_value(snapshot.listing()).unwrap();
    let timers = listed.as_array_mut().unwrap();
    timers.sort_by_key(|timer| timer["due_in_ns"].as_i64().unwrap_or(i64::MAX));
    let timer = |due_in_ns: Value, level: u8| {
        let mut timer = json!({ "level": level, "shard": 1 });
        timer["due_in_ns"] = due_in_ns;
        timer
    };
    let never = timers.pop().unwrap();
    assert_eq!((&never["due_in_ns"], &never["shard"]), (&Value::Null, &1.into()));
    assert_eq!(timers[0], timer(0.into(), 1));
    assert_eq!(timers[1], timer(1_000_000.into(), 1));
    assert_eq!(timers[2], timer(69_997_000_000_i64.into(), 4));
    assert_eq!(timers.len(), 3);
}

#[test]
fn what_has_passed_is_at_a_negative_distance() {
    let clock = ManualClock::new();
    let engine = Builder::new().shards(1).manual_clock(&clock).build().unwrap();
    engine.schedule_detached(MS * 10, || ()).unwrap();
    clock.advance(MS * 35);
    let text = serde_json::to_string(&engine.snapshot().listing()).unwrap();
    assert!(text.starts_with(r#"[{"due_in_ns":-25000000,"level":"#), "{text}");
    assert!(text.ends_with(r#","shard":0}]"#), "{text}");
    let text = serde_json::to_string(&engine.overdue()).unwrap();
    assert_eq!(text, r#"{"oldest_ns":25000000,"shards":1,"stuck":[]}"#);
}

#[test]
fn a_stuck_task_is_written_with_its_age() {
    let engine = Engine::builder().shards(1).takeover(None).thread_name("json \"0\"");
    let engine = engine.build().unwrap();
    let (slow, task) = Slow::task();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    slow.has_begun();
    let deadline = std::time::Instant::now() + PATIENCE;
    let overdue = loop {
        let overdue = engine.overdue();
        if !overdue.stuck.is_empty() {
            break overdue;
        }
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(MS);
    };
    let [task] = &overdue.stuck[..] else { unreachable!("there is one task") };
    assert!(task.age >= MS && task.age <= task.since.elapsed());
    let written = serde_json::to_value(&overdue).unwrap();
    let expected = json!([{
        "shard": 0,
        "thread": "json \"0\"-0",
        "age_ns": task.age.as_nanos() as u64,
    }]);
    assert_eq!(written["stuck"], expected);
    slow.release();
    engine.stop().unwrap();
}

#[test]
fn what_is_written_can_be_read_back() {
    let engine = storied();
    let (stats, snapshot) = (engine.stats(), engine.snapshot());
    let written = serde_json::to_string(&(stats, &snapshot, engine.overdue())).unwrap();
    let read: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(read[0]["scheduled"], stats.scheduled);
    assert_eq!(read[0]["lateness"]["max_ns"], stats.lateness.max.as_nanos() as u64);
    let sum = |counts: &Value| -> u64 {
        counts.as_array().unwrap().iter().map(|count| count["timers"].as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&read[1]["by_level"]), snapshot.len() as u64);
    assert_eq!(sum(&read[1]["by_due_time"]), snapshot.len() as u64);
    assert_eq!(serde_json::to_string(&read).unwrap().len(), written.len());
}
