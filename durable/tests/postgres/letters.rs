//! Dead letters of shards that this instance holds, and of others.

#[path = "../common/letters.rs"]
mod suite;

use std::fmt::Display;

use tickless_durable::cluster::Firing;
use tickless_durable::{Builder, Cluster};

use crate::history::Recorder;
use crate::server::Place;

const SHARDS: u32 = 4;

fn place() -> Option<Place> {
    let place = Place::new()?;
    Recorder::new(&place, SHARDS);
    Some(place)
}

fn start<E: Display>(
    place: &Place,
    service: Builder,
    handler: impl Fn(&Firing<'_, String>) -> Result<(), E> + Send + Sync + 'static,
) -> Cluster<String> {
    let builder = Cluster::builder(&place.url).schema(&place.schema).service(service);
    builder.start(handler).unwrap()
}
