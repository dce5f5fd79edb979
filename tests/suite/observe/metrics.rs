//! Metrics: every name with its kind, unit, labels and value, and no value twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use tickless::{Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// Each metric as text, with its labels, and its value; histograms as their values, in order.
fn published(snapshotter: &Snapshotter) -> BTreeMap<String, Vec<f64>> {
    let metrics = snapshotter.snapshot().into_vec();
    let with_value = metrics.into_iter().map(|(key, _, _, value)| {
        let key = key.key();
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let values = match value {
            DebugValue::Counter(value) => vec![value as f64],
            DebugValue::Gauge(value) => vec![value.into_inner()],
            DebugValue::Histogram(values) => {
                let mut values: Vec<f64> = values.into_iter().map(|v| v.into_inner()).collect();
                values.sort_by(f64::total_cmp);
                values
            }
        };
        (format!("{}{{{}}}", key.name(), labels.join(",")), values)
    });
    with_value.collect()
}

/// The value of a metric of the engine "tea".
fn value(published: &BTreeMap<String, Vec<f64>>, name: &str) -> f64 {
    let values = &published[&format!("tickless_{name}{{engine=tea}}")];
    assert_eq!(values.len(), 1, "{name}");
    values[0]
}

fn manual(shards: usize) -> (Engine, ManualClock) {
    quietly();
    let clock = ManualClock::new();
    let builder = Engine::builder().shards(shards).name("tea").manual_clock(&clock);
    (builder.build().unwrap(), clock)
}

/// A story in which each number becomes another.
fn live(engine: &Engine, clock: &ManualClock) {
    engine.bind_thread(0).unwrap();
    let mut handles: Vec<_> = (1..=6).map(|n| engine.schedule(MS * n, || ()).unwrap()).collect();
    for handle in handles.drain(..4) {
        assert!(handle.cancel());
    }
    // Three of them in seats.
    (0..3).for_each(|_| engine.schedule_detached(MS * 40, || ()).unwrap());
    assert!(handles[0].reset(MS * 50).is_ok());
    engine.schedule_detached(MS * 60, || panic_as_planned()).unwrap();
    let of_task = clock.clone();
    engine.schedule_detached(MS * 70, move || of_task.advance(MS * 100)).unwrap();
    clock.advance(MS * 33);
    engine.turn(0).unwrap();
    clock.advance(MS * 1000);
    engine.turn(0).unwrap();
    engine.schedule_detached(MS * 1000, || ()).unwrap();
    engine.schedule_detached(Duration::MAX, || ()).unwrap();
}

#[test]
fn every_number_is_published_under_its_name_and_the_engines() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (engine, clock) = manual(2);
    let mut metrics = metrics::with_local_recorder(&recorder, || engine.metrics());
    live(&engine, &clock);
    metrics.publish();
    let (stats, published) = (engine.stats(), published(&snapshotter));
    let numbers = [
        ("timers_scheduled_total", stats.scheduled),
        ("timers_seated_total", stats.seated),
        ("timers_cancelled_total", stats.cancelled),
        ("timers_reset_total", stats.reset),
        ("timers_fired_total", stats.fired),
        ("timers_cascaded_total", stats.cascaded),
        ("tasks_panicked_total", stats.panicked),
        ("timers_pending", stats.pending),
        ("shards", 2),
    ];
    for (name, expected) in numbers {
        assert!(expected > 0, "the story has no {name}");
        assert_eq!(value(&published, name), expected as f64, "{name}");
    }
    assert_eq!(value(&published, "lateness_max_seconds"), stats.lateness.max.as_secs_f64());
    for name in [
        "timers_returned_total",
        "wake_ups_total",
        "timers_unended",
        "entries_dead",
        "takeovers_total",
        "tasks_stuck",
        "overdue_seconds",
    ] {
        assert_eq!(value(&published, name), 0.0, "{name}");
    }
    // And the histograms of two shards.
    assert_eq!(published.len(), numbers.len() + 1 + 7 + 2);
}

#[test]
fn gauges_go_down_and_counters_do_not() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (engine, clock) = manual(1);
    let mut metrics = metrics::with_local_recorder(&recorder, || engine.metrics());
    live(&engine, &clock);
    metrics.publish();
    let before = published(&snapshotter);
    assert_eq!(engine.stop().unwrap().len(), 2);
    metrics.publish();
    let after = published(&snapshotter);
    assert_eq!(value(&before, "timers_pending"), 2.0);
    assert_eq!(value(&after, "timers_pending"), 0.0);
    assert_eq!(value(&after, "timers_returned_total"), 2.0);
    assert_eq!(value(&after, "timers_fired_total"), value(&before, "timers_fired_total"));
}

#[test]
fn each_lateness_is_published_once_in_seconds_and_by_shard() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (engine, clock) = manual(2);
    let mut metrics = metrics::with_local_recorder(&recorder, || engine.metrics());
    let late = |shard: usize| {
        let name = format!("tickless_lateness_seconds{{engine=tea,shard={shard}}}");
        published(&snapshotter)[&name].clone()
    };
    let assert_about = |values: &[f64], expected: &[f64]| {
        assert_eq!(values.len(), expected.len(), "{values:?}");
        for (value, expected) in values.iter().zip(expected) {
            assert!(*value >= *expected && *value <= *expected * 1.0625, "{values:?}");
        }
    };
    engine.bind_thread(1).unwrap();
    (1..=3).for_each(|n| engine.schedule_detached(MS * n, || ()).unwrap());
    engine.schedule_detached(MS * 3, || ()).unwrap();
    clock.advance(MS * 3);
    assert_eq!(engine.turn(1).unwrap().fired, 4);
    metrics.publish();
    assert_about(&late(1), &[0.0, 0.0, 0.001, 0.002]);
    metrics.publish();
    assert_about(&late(1), &[]);
    engine.schedule_detached(MS, || ()).unwrap();
    clock.advance(MS * 250);
    assert_eq!(engine.turn(1).unwrap().fired, 1);
    metrics.publish();
    assert_about(&late(1), &[0.249]);
    assert_about(&late(0), &[]);
}

#[test]
fn the_histogram_may_be_left_out() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (engine, clock) = manual(1);
    let mut metrics =
        metrics::with_local_recorder(&recorder, || engine.metrics().without_histogram());
    live(&engine, &clock);
    metrics.publish();
    let published = published(&snapshotter);
    assert!(value(&published, "timers_fired_total") > 0.0);
    assert!(published["tickless_lateness_seconds{engine=tea,shard=0}"].is_empty());
}

#[test]
fn every_metric_is_described_and_has_a_unit() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (engine, _clock) = manual(1);
    let _metrics = metrics::with_local_recorder(&recorder, || engine.metrics());
    let all = snapshotter.snapshot().into_vec();
    assert_eq!(all.len(), 10 + 7 + 1);
    for (key, unit, text, _) in all {
        let name = key.key().name();
        let is_time = name.ends_with("_seconds");
        assert_eq!(unit, Some(if is_time { Unit::Seconds } else { Unit::Count }), "{name}");
        assert!(text.is_some_and(|text| text.ends_with('.')), "{name}");
    }
}

#[test]
fn metrics_keep_no_engine_running_and_publish_how_it_ended() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let engine = Engine::builder().shards(2).name("tea").build().unwrap();
    let mut metrics = metrics::with_local_recorder(&recorder, || engine.metrics());
    (0..3).for_each(|_| engine.schedule_detached(MS * 1_000_000, || ()).unwrap());
    drop(engine);
    metrics.publish();
    let published = published(&snapshotter);
    assert_eq!(value(&published, "timers_returned_total"), 3.0);
    assert_eq!(value(&published, "timers_pending"), 0.0);
}

#[test]
fn a_publisher_publishes_again_and_again_and_when_it_ends() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (engine, _clock) = manual(1);
    let publisher = metrics::with_local_recorder(&recorder, || {
        engine.metrics().publish_every(Duration::ZERO).unwrap()
    });
    let pending = || value(&published(&snapshotter), "timers_pending");
    for expected in 1..=3 {
        engine.schedule_detached(Duration::MAX, || ()).unwrap();
        let begun = Instant::now();
        while pending() != f64::from(expected) {
            assert!(begun.elapsed() < PATIENCE, "it has stopped");
            std::thread::yield_now();
        }
    }
    drop(publisher);

    let seldom = metrics::with_local_recorder(&recorder, || {
        engine.metrics().publish_every(Duration::MAX).unwrap()
    });
    engine.schedule_detached(Duration::MAX, || ()).unwrap();
    drop(seldom);
    assert_eq!(pending(), 4.0, "the last numbers are published at the end");
}
