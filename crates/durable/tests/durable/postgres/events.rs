//! What instances tell by `tracing`: shards that are opened and closed, and what they fail at.
//!
//! Their threads have no subscriber of their own, so this one is the program's.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};

use tickless_durable::Cluster;
use tickless_durable::cluster::Firing;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::history::Recorder;
use super::server::Place;
use crate::common::until::wait_until;

/// What was told, a line each.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "tickless_durable::cluster" {
            let mut fields = Fields(event.metadata().level().to_string());
            event.record(&mut fields);
            LINES.lock().unwrap().push(fields.0);
        }
    }
}

/// What an instance has told.
fn told(cluster: &Cluster<String>) -> Vec<String> {
    let name = format!(" instance={} ", cluster.instance());
    let all = LINES.lock().unwrap();
    all.iter().filter(|line| line.contains(&name)).map(|line| line.replace(&name, " ")).collect()
}

#[test]
fn shards_that_open_and_close_and_one_that_cannot_be_opened_are_told() {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Lines);
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 2);
    recorder.refuse_second_shard();
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let builder = Cluster::builder(&place.url).schema(&place.schema);
    let cluster: Cluster<String> = builder.start(handler).unwrap();
    wait_until("one works and one does not", || {
        cluster.shards().len() == 1 && cluster.failure().is_some()
    });
    let fence = cluster.shards()[0].1;
    cluster.stop().unwrap();
    let told = told(&cluster);
    let lines = ["opened", "closed"].map(|what| {
        let line = format!("INFO message=shard {what} shard=0 fence={fence}");
        told.iter().position(|told| *told == line).unwrap_or_else(|| panic!("{what}: {told:?}"))
    });
    assert!(lines[0] < lines[1], "{told:?}");
    let trouble = "WARN message=trouble shard=1 error=the database says: on purpose";
    assert!(told.iter().any(|line| line == trouble), "{told:?}");
}
