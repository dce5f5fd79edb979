//! Events and spans: each with its target, level and fields, once.

use std::fmt::{Debug, Write};
use std::panic;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::planned::{panic_as_planned, quietly};
use tickless::{Builder, Engine, ManualClock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

const MS: Duration = Duration::from_millis(1);

/// Writes down what it is told, a line each.
#[derive(Clone, Default)]
struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    /// Panics instead.
    is_broken: bool,
}

/// Fields as text, in their order.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Recorder {
    fn write(&self, what: &str, metadata: &Metadata<'_>, fields: Fields) {
        let (level, target) = (metadata.level(), metadata.target());
        if target.starts_with("tickless") {
            if self.is_broken {
                panic_as_planned();
            }
            self.lines.lock().unwrap().push(format!("{what} {level} {target}{}", fields.0));
        }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

/// The calls about a span that a subscriber gets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    New,
    Enter,
    Exit,
    Close,
}

/// Panics at some calls about a span.
struct Broken(&'static [Call]);

impl Broken {
    fn call(&self, call: Call) {
        if self.0.contains(&call) {
            panic_as_planned();
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Broken {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.call(Call::New);
    }

    fn on_enter(&self, _: &Id, _: Context<'_, S>) {
        self.call(Call::Enter);
    }

    fn on_exit(&self, _: &Id, _: Context<'_, S>) {
        self.call(Call::Exit);
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        self.call(Call::Close);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields(String::new());
        attributes.record(&mut fields);
        self.write("span", attributes.metadata(), fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let inside = context.event_span(event).map_or("", |span| span.name());
        self.write(&format!("event [{inside}]"), event.metadata(), fields);
    }
}

/// What is recorded while `f` runs.
fn recorded(f: impl FnOnce()) -> Vec<String> {
    let recorder = Recorder::default();
    tracing::subscriber::with_default(Registry::default().with(recorder.clone()), f);
    recorder.lines()
}

fn builder(clock: &ManualClock) -> Builder {
    quietly();
    Engine::builder().shards(2).name("tea").manual_clock(clock)
}

#[test]
fn a_batch_is_a_span_around_what_its_tasks_say() {
    let clock = ManualClock::new();
    let engine = builder(&clock).build().unwrap();
    engine.bind_thread(1).unwrap();
    let lines = recorded(|| {
        for _ in 0..2 {
            let task = || tracing::info!(target: "tickless_tests", "ready");
            engine.schedule_detached(MS, task).unwrap();
        }
        assert_eq!(engine.advance(MS * 5), Ok(2));
    });
    let span = "span TRACE tickless::batch engine=\"tea\" shard=1 timers=2";
    let event = "event [batch] INFO tickless_tests message=ready";
    assert_eq!(lines, [span, event, event]);
}

#[test]
fn a_panic_is_an_error_with_its_message_where_it_has_one() {
    let engine = builder(&ManualClock::new()).build().unwrap();
    engine.bind_thread(1).unwrap();
    let lines = recorded(|| {
        engine.schedule_detached(MS, || panic::resume_unwind(Box::new("no tea"))).unwrap();
        engine.schedule_detached(MS * 2, || panic_as_planned()).unwrap();
        assert_eq!(engine.advance(MS * 2), Ok(2));
    });
    let events: Vec<_> = lines.iter().filter(|line| line.starts_with("event")).collect();
    let error = "event [] ERROR tickless::panic message=task panicked engine=\"tea\" shard=1";
    assert_eq!(events, [&format!("{error} panic=\"no tea\""), error]);
}

/// Only Linux has another way to wait, which it misses here.
#[cfg(all(target_os = "linux", not(elsewhere)))]
#[test]
fn an_engine_on_a_runtime_without_a_reactor_says_so() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let lines = recorded(|| {
        let builder = Engine::builder().shards(2).name("tea");
        drop(runtime.block_on(async { builder.build_on_tokio().unwrap() }));
    });
    let said =
        "message=waits by the runtime's sleeps engine=\"tea\" error=the runtime has no reactor";
    assert_eq!(lines, [format!("event [] WARN tickless::runtime {said}")]);
}

#[test]
fn the_name_is_that_of_the_threads_unless_there_is_another() {
    let names: Vec<_> = [Builder::new(), Builder::new().thread_name("producer")]
        .map(|builder| {
            let engine = builder.shards(1).manual_clock(&ManualClock::new()).build().unwrap();
            let lines = recorded(|| {
                engine.schedule_detached(MS, || ()).unwrap();
                engine.advance(MS).unwrap();
            });
            lines.concat()
        })
        .to_vec();
    let span = |name: &str| format!("span TRACE tickless::batch engine={name:?} shard=0 timers=1");
    assert_eq!(names, [span("tickless"), span("producer")]);
}

#[test]
fn a_subscriber_that_panics_at_an_event_harms_no_reaper() {
    let clock = ManualClock::new();
    let engine = builder(&clock).shards(1).build().unwrap();
    let recorder = Recorder { is_broken: true, ..Recorder::default() };
    tracing::subscriber::with_default(Registry::default().with(recorder), || {
        engine.schedule_detached(MS, || panic_as_planned()).unwrap();
        engine.schedule_detached(MS * 2, || ()).unwrap();
        clock.advance(MS * 10);
        assert_eq!(engine.turn(0).unwrap().fired, 2);
        assert_eq!(engine.stats().panicked, 1);
    });
}

#[test]
fn a_subscriber_that_panics_at_a_span_keeps_no_task_from_running() {
    use Call::{Close, Enter, Exit, New};
    let cases: [&[Call]; 6] =
        [&[New], &[Enter], &[Exit], &[Close], &[Exit, Close], &[Enter, Exit, Close]];
    for calls in cases {
        let engine = builder(&ManualClock::new()).shards(1).build().unwrap();
        let ran = Arc::new(Mutex::new(Vec::new()));
        for n in 0..3 {
            let ran = ran.clone();
            let task = move || {
                ran.lock().unwrap().push(n);
                // The span then ends while the thread unwinds.
                if n == 1 {
                    panic_as_planned();
                }
            };
            engine.schedule_detached(MS, task).unwrap();
        }
        let subscriber = Registry::default().with(Broken(calls));
        tracing::subscriber::with_default(subscriber, || {
            assert_eq!(engine.advance(MS), Ok(3), "{calls:?}");
        });
        let stats = engine.stats();
        assert_eq!((stats.fired, stats.panicked), (3, 1), "{calls:?}: the task's panic alone");
        ran.lock().unwrap().sort_unstable();
        assert_eq!(*ran.lock().unwrap(), [0, 1, 2], "{calls:?}");
    }
}
