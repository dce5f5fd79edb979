//! What the facades `metrics` and `tracing` are told.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tickless_durable::store::{Disk, Fault, Memory};
use tickless_durable::{Backoff, Builder, ByHand, Firing, Metrics};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

const SECOND: Duration = Duration::from_secs(1);

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000)
}

/// One test at a time: where a thread without a subscriber comes to an event for the first time,
/// just while another one begins to listen, `tracing` may take it for one that nobody listens to.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A service whose handler fails where the payload says so, twice.
fn service(disk: &Disk) -> ByHand<String, Memory> {
    let handler = |firing: &Firing<String>| {
        tracing::info!(target: "tickless_durable::test", "inside");
        if firing.payload() == "dies" { Err("on purpose") } else { Ok(()) }
    };
    let backoff = Backoff::new(SECOND).factor(1.0);
    let builder = Builder::new().attempts(2).backoff(backoff).thread_name("tea");
    builder.open_by_hand(disk.open(), now(), handler).unwrap()
}

fn schedule(service: &ByHand<String, Memory>, at: SystemTime, payload: &str) {
    drop(service.timers().schedule(at, payload.to_owned()).unwrap());
}

/// Has the handler called with what is due.
fn run(service: &mut ByHand<String, Memory>) {
    let worker = service.worker();
    while worker() {}
    service.step().unwrap();
}

// === metrics ===

/// What is published, by name. The labels are the same for all.
fn published(metrics: &mut Metrics, recorder: &DebuggingRecorder) -> BTreeMap<String, f64> {
    metrics::with_local_recorder(recorder, || metrics.publish());
    let snapshotter: Snapshotter = recorder.snapshotter();
    let found = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let key = key.key();
        let labels: Vec<_> = key.labels().map(|one| (one.key(), one.value())).collect();
        assert_eq!(labels, [("service", "tea")]);
        let value = match value {
            DebugValue::Counter(value) => value as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.iter().map(|value| value.into_inner()).sum(),
        };
        (key.name().trim_start_matches("tickless_durable_").to_owned(), value)
    });
    found.collect()
}

#[test]
fn what_a_service_counts_is_published() {
    let _alone = alone();
    let (disk, recorder) = (Disk::default(), DebuggingRecorder::new());
    let mut service = service(&disk);
    let mut metrics = service.timers().metrics();
    schedule(&service, now() - 5 * SECOND, "works");
    schedule(&service, now(), "dies");
    schedule(&service, now() + 60 * SECOND, "far");
    service.step().unwrap();
    let first = published(&mut metrics, &recorder);
    let expected = [("scheduled_total", 3.0), ("stored_total", 3.0), ("fired_total", 0.0)];
    let gauges = [("near", 3.0), ("busy", 2.0), ("stuck", 0.0), ("lag_seconds", 5.0)];
    for (name, value) in expected.into_iter().chain(gauges) {
        assert_eq!(first[name], value, "{name}: {first:?}");
    }
    run(&mut service);
    service.advance(SECOND);
    run(&mut service);
    let second = published(&mut metrics, &recorder);
    let expected = [("fired_total", 3.0), ("failed_total", 2.0), ("retried_total", 1.0)];
    let gauges = [("buried_total", 1.0), ("near", 1.0), ("busy", 0.0), ("lag_seconds", 0.0)];
    assert!((5.0..5.1).contains(&second["late_seconds"]), "{second:?}");
    for (name, value) in expected.into_iter().chain(gauges) {
        assert_eq!(second[name], value, "{name}: {second:?}");
    }
    assert_eq!(second.len(), 17);
}

// === tracing ===

/// Writes down what it is told, a line each.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Lines {
    fn write(&self, metadata: &Metadata<'_>, fields: Fields) {
        if let Some(target) = metadata.target().strip_prefix("tickless_durable::") {
            let line = format!("{} {target}{}", metadata.level(), fields.0);
            self.0.lock().unwrap().push(line);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields(String::new());
        attributes.record(&mut fields);
        self.write(attributes.metadata(), fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        if event.metadata().target() == "tickless_durable::test" {
            let is_inside = context.current_span().id().is_some();
            write!(fields.0, " in_span={is_inside}").unwrap();
        }
        self.write(event.metadata(), fields);
    }
}

#[test]
fn attempts_failures_and_deaths_are_told_where_they_happen() {
    let _alone = alone();
    let (disk, lines) = (Disk::default(), Lines::default());
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    tracing::subscriber::with_default(subscriber, || {
        let mut service = service(&disk);
        schedule(&service, now(), "dies");
        service.step().unwrap();
        let id = disk.timers()[0].id();
        let failed = |attempt: u32| {
            [
                format!("DEBUG handler service=\"tea\" id={id} attempt={attempt}"),
                "INFO test message=inside in_span=true".to_owned(),
                format!(
                    "WARN attempt message=attempt failed service=\"tea\" id={id} \
                     attempt={attempt} error=\"on purpose\""
                ),
            ]
        };
        let worker = service.worker();
        assert!(worker());
        assert_eq!(lines.take(), failed(1));
        run(&mut service);
        service.advance(SECOND);
        assert!(worker());
        // It is dead when that is durable.
        assert_eq!(lines.take(), failed(2));
        run(&mut service);
        let dead = "ERROR dead message=dead letter service=\"tea\"";
        let dead = format!("{dead} id={id} attempt=2 error=\"on purpose\"");
        assert_eq!(lines.take(), [dead]);
        disk.fail_next(Fault::Lost);
        schedule(&service, now(), "lost");
        service.step().unwrap_err();
        let failure = lines.take();
        assert_eq!(failure.len(), 1, "{failure:?}");
        assert!(failure[0].starts_with("ERROR failure message=store failed service=\"tea\""));
    });
}

/// What the rules and the dashboard ask for is published, or counted with those that are.
#[test]
fn the_files_for_monitoring_ask_for_what_is_published() {
    let published = include_str!("../src/service/metrics.rs");
    for file in
        [include_str!("../monitoring/alerts.yml"), include_str!("../monitoring/dashboard.json")]
    {
        let is_part = |char: char| !(char.is_ascii_alphanumeric() || char == '_');
        let names = file.split(is_part).filter(|word| word.starts_with("tickless_durable_"));
        for name in names.map(|name| name.trim_end_matches("_bucket")) {
            assert!(
                published.contains(&format!("(\"{name}\"")) || name.contains("overdue"),
                "{name}"
            );
        }
    }
}
