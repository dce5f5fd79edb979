//! What is printed: snapshots and statistics as tables, to the letter, and what is in them.

use std::panic;
use std::time::Duration;

use tickless::{Builder, DueTime, Engine, ManualClock, Snapshot};

const MS: Duration = Duration::from_millis(1);

const DAY: Duration = Duration::from_secs(86_400);

fn manual(shards: usize) -> (Engine, ManualClock) {
    let clock = ManualClock::new();
    (Builder::new().shards(shards).exact_below(0).manual_clock(&clock).build().unwrap(), clock)
}

/// Timers on two shards, of which each kind of due time has some.
fn full() -> Snapshot {
    let (engine, clock) = manual(2);
    engine.bind_thread(1).unwrap();
    engine.schedule_detached(MS * 3, || ()).unwrap();
    clock.advance(MS * 10);
    engine.bind_thread(0).unwrap();
    let spans = [1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000];
    for (n, ms) in (1..).zip(spans) {
        for _ in 0..n {
            engine.schedule_detached(MS * (ms - 1), || ()).unwrap();
        }
        engine.schedule_detached(MS * ms, || ()).unwrap();
    }
    engine.schedule_detached(DAY * 10_000, || ()).unwrap();
    engine.schedule_detached(Duration::MAX, || ()).unwrap();
    engine.snapshot()
}

/// How many are due how soon, of those times that any are due at.
fn due_times(snapshot: &Snapshot) -> Vec<(DueTime, usize)> {
    let counts = snapshot.by_due_time().into_iter().filter(|count| count.timers > 0);
    counts.map(|count| (count.due, count.timers)).collect()
}

#[test]
fn a_snapshot_is_printed_by_level_by_due_time_and_by_shard() {
    let expected = [
        "pending   57",
        "",
        "level  bucket       timers",
        "    1  1ms               6",
        "    2  32ms              9",
        "    3  1.024s            6",
        "    4  32.768s          15",
        "    5  17.5min           9",
        "    6  9.3h             10",
        "    8  397.7d            1",
        "   11  13031248.9d       1",
        "",
        "due      timers",
        "overdue       2",
        "< 10ms        3",
        "< 100ms       4",
        "< 1s          5",
        "< 10s         6",
        "< 1min        7",
        "< 10min       8",
        "< 1h          9",
        "< 1d         10",
        "later         2",
        "never         1",
        "",
        "shard  timers",
        "    0      56",
        "    1       1",
        "",
    ];
    assert_eq!(full().to_string(), expected.join("\n"));
}

#[test]
fn a_snapshot_says_in_short_what_is_in_it_however_many_that_are() {
    let expected = "Snapshot { len: 57, by_level: [(1, 6), (2, 9), (3, 6), (4, 15), (5, 9), \
                    (6, 10), (8, 1), (11, 1)], by_due_time: [(\"overdue\", 2), (\"< 10ms\", 3), \
                    (\"< 100ms\", 4), (\"< 1s\", 5), (\"< 10s\", 6), (\"< 1min\", 7), \
                    (\"< 10min\", 8), (\"< 1h\", 9), (\"< 1d\", 10), (\"later\", 2), \
                    (\"never\", 1)], by_shard: [56, 1], .. }";
    assert_eq!(format!("{:?}", full()), expected);
}

#[test]
fn an_empty_snapshot_is_a_line_and_knows_every_due_time() {
    let (engine, _clock) = manual(2);
    let empty = engine.snapshot();
    assert_eq!(empty.to_string(), "pending   0\n");
    assert!(empty.by_level().is_empty() && due_times(&empty).is_empty());
    let all: Vec<String> = empty.by_due_time().iter().map(|count| count.due.to_string()).collect();
    let names = ["overdue", "< 1ms", "< 10ms", "< 100ms", "< 1s", "< 10s", "< 1min", "< 10min"];
    assert_eq!(all[..8], names);
    assert_eq!(all[8..], ["< 1h", "< 1d", "later", "never"]);
}

#[test]
fn counts_add_up_whatever_they_go_by() {
    let full = full();
    assert_eq!(full.by_level().iter().map(|count| count.timers).sum::<usize>(), full.len());
    assert_eq!(full.by_due_time().iter().map(|count| count.timers).sum::<usize>(), full.len());
    assert_eq!(full.by_shard().iter().sum::<usize>(), full.len());
}

#[test]
fn due_times_go_by_the_engines_time_when_it_was_taken() {
    let clock = ManualClock::new();
    let builder = Engine::builder().tick(MS / 10).manual_clock(&clock);
    let engine = builder.build().unwrap();
    engine.schedule_detached(MS * 10, || ()).unwrap();
    let within = |ms| DueTime::Within(MS * ms);
    let mut before = due_times(&engine.snapshot());
    assert_eq!(before, [(within(100), 1)]);
    for (by, due) in [(MS / 10, within(10)), (MS * 89 / 10, within(10)), (MS / 10, within(1))] {
        clock.advance(by);
        before = due_times(&engine.snapshot());
        assert_eq!(before, [(due, 1)]);
    }
    clock.advance(MS);
    let snapshot = engine.snapshot();
    assert_eq!(due_times(&snapshot), [(DueTime::Overdue, 1)]);
    assert_eq!(snapshot.taken_at(), engine.now());
    clock.advance(MS);
    assert_eq!(due_times(&snapshot), [(DueTime::Overdue, 1)], "a snapshot does not change");
}

#[test]
fn widths_are_those_of_the_wheel_and_saturate() {
    let clock = ManualClock::new();
    let builder = Engine::builder().tick(Duration::from_nanos(u64::MAX)).slots(2);
    let engine = builder.manual_clock(&clock).build().unwrap();
    engine.schedule_detached(Duration::MAX, || ()).unwrap();
    engine.schedule_detached(Duration::ZERO, || ()).unwrap();
    let widths: Vec<_> = engine.snapshot().by_level().iter().map(|count| count.width).collect();
    assert_eq!(widths, [Duration::from_nanos(u64::MAX), Duration::MAX]);
}

// === statistics ===

#[test]
fn statistics_are_printed_as_tables() {
    let (engine, clock) = manual(1);
    assert!(!engine.stats().to_string().contains("lateness"), "nothing was late yet");
    for n in 1..=4 {
        engine.schedule_detached(MS * n, || ()).unwrap();
    }
    engine.schedule_detached(MS * 5, || panic::resume_unwind(Box::new("planned"))).unwrap();
    assert!(engine.schedule(MS * 500, || ()).unwrap().cancel());
    drop(engine.schedule(MS * 1500, || ()).unwrap());
    clock.advance(MS * 1100);
    assert_eq!(engine.turn(0).unwrap().fired, 5);
    let expected = [
        "timers                       count",
        "scheduled                        7",
        "- in a cancelled one's seat      1",
        "cancelled                        1",
        "reset                            0",
        "fired                            5",
        "- panicked                       1",
        "- and still held                 0",
        "returned                         0",
        "pending                          1",
        "cascaded                         1",
        "dead                             0",
        "",
        "reapers     count",
        "woke up         0",
        "taken over      0",
        "stuck now       0",
        "",
        "lateness   at most",
        "of 50 %    1.099s",
        "of 99 %    1.099s",
        "of 99.9 %  1.099s",
        "of all     1.099s",
        "",
    ];
    assert_eq!(engine.stats().to_string(), expected.join("\n"));
}
