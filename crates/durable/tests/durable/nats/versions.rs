//! Streams that earlier versions have made.

use tickless_durable::cluster::Firing;
use tickless_durable::store::nats::probe;
use tickless_durable::{Cluster, OpenError, StoreErrorKind};

use super::server::{Place, on_one, patiently};
use crate::common;
use crate::common::until::wait_until;

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// The streams of version 2.
fn place() -> Option<Place> {
    let place = on_one()?;
    patiently(|| probe::make_streams(&place.url, &place.name)).unwrap();
    for line in include_str!("../../fixtures/nats-2.txt").lines() {
        let (whose, data) = line.split_once(' ').unwrap();
        let subject = match whose {
            "log" => format!("tickless.{}.log.0", place.name),
            key => format!("$KV.tickless_{}.{key}", place.name),
        };
        probe::publish(&place.url, &subject, &bytes_of(data)).unwrap();
    }
    Some(place)
}

#[test]
fn streams_of_an_earlier_version_are_refused_until_they_are_migrated() {
    let Some(place) = place() else { return };
    let builder = || Cluster::nats(&place.url).schema(&place.name);
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let started: Result<Cluster<String>, _> = builder().start(handler);
    let Err(OpenError::Store(error)) = started else { panic!("it is of version 2") };
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("`tickless-durable migrate`"), "{error}");
    drop(builder().migrate(true).observe().unwrap());
    let cluster: Cluster<String> = builder().start(handler).unwrap();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    let (records, letters) = common::fixture::contents();
    let listed = cluster.list(None, 9).wait().unwrap();
    assert_eq!(listed.iter().map(|timer| timer.record.clone()).collect::<Vec<_>>(), records);
    let dead = cluster.dead_letters(None, 9).wait().unwrap();
    assert_eq!(dead.iter().map(|letter| letter.letter().clone()).collect::<Vec<_>>(), letters);
    cluster.stop().unwrap();
}
