//! What one store in the database does.

use std::sync::Arc;

use tickless_durable::store::PostgresStore;
use tickless_durable::{
    Cluster, Op, OpenError, Position, Record, Store, StoreErrorKind, conformance,
};

use super::server::Place;

fn take(place: &Place) -> PostgresStore {
    PostgresStore::take(&place.url, &place.schema).unwrap()
}

fn put(number: u64) -> Op {
    Op::Put(Arc::new(Record::new(Position { due_ms: 5, number }, None, [7].into())))
}

#[test]
fn a_shard_conforms() {
    if Place::new().is_none() {
        return;
    }
    conformance::all(|| {
        let place = Place::new().unwrap();
        move || PostgresStore::take(&place.url, &place.schema)
    });
}

#[test]
fn only_the_last_one_to_take_a_shard_writes() {
    let Some(place) = Place::new() else { return };
    let mut first = take(&place);
    first.commit(&[put(1)]).unwrap();
    let mut second = take(&place);
    assert!(first.fence() < second.fence());
    assert_eq!(first.commit(&[put(2)]).unwrap_err().kind(), StoreErrorKind::Fenced);
    assert_eq!(first.begin().unwrap_err().kind(), StoreErrorKind::Fenced);
    assert_eq!(second.commit(&[put(3)]).unwrap(), [None]);
    let numbers = |records: Vec<Record>| -> Vec<u64> {
        records.iter().map(|record| record.position.number).collect()
    };
    assert_eq!(numbers(second.scan(None, 9).unwrap()), [1, 3]);
}

#[test]
fn a_batch_of_any_length_is_one_change() {
    let Some(place) = Place::new() else { return };
    let mut store = take(&place);
    // The last one is there twice, so the server refuses it.
    let mut batch: Vec<Op> = (0..5000).map(put).collect();
    store.commit(&batch).unwrap();
    let again: Vec<Op> = (5000..8000).chain([4999]).map(put).collect();
    assert_eq!(store.commit(&again).unwrap_err().kind(), StoreErrorKind::Corrupt);
    assert_eq!(store.scan(None, usize::MAX).unwrap().len(), 5000);
    batch.clear();
    batch.extend((0..5001).map(|number| Op::Remove(Position { due_ms: 5, number })));
    let outcomes = store.commit(&batch).unwrap();
    assert_eq!(outcomes.iter().flatten().count(), 5000);
    assert_eq!(outcomes[5000], None);
}

#[test]
fn a_row_that_somebody_has_changed_is_not_taken_for_a_timer() {
    let Some(place) = Place::new() else { return };
    let mut store = take(&place);
    store.commit(&[put(1)]).unwrap();
    place.client().batch_execute("UPDATE records SET payload = 'x'").unwrap();
    assert_eq!(store.scan(None, 9).unwrap_err().kind(), StoreErrorKind::Corrupt);
}

#[test]
fn a_batch_keeps_a_shard_from_being_taken_and_not_from_being_renewed() {
    let Some(place) = Place::new() else { return };
    let store = take(&place);
    let (mut writer, mut other) = (place.client(), place.client());
    let fence = store.fence().cast_signed();
    let mut batch = writer.transaction().unwrap();
    let hold = "SELECT 1 FROM shards WHERE shard = 0 AND fence = $1 FOR KEY SHARE";
    assert_eq!(batch.query(hold, &[&fence]).unwrap().len(), 1);
    // It would wait, if at all, for ever.
    other.batch_execute("SET lock_timeout = '100ms'").unwrap();
    let renew = "UPDATE shards SET expires = now() WHERE shard = 0";
    assert_eq!(other.execute(renew, &[]).unwrap(), 1);
    let free = "SELECT 1 FROM shards FOR UPDATE SKIP LOCKED";
    assert_eq!(other.query(free, &[]).unwrap().len(), 0);
    let take = "UPDATE shards SET fence = fence + 1";
    assert!(other.execute(take, &[]).is_err(), "the fence is kept");
    batch.commit().unwrap();
    assert_eq!(other.query(free, &[]).unwrap().len(), 1);
}

#[test]
fn a_database_that_cannot_be_used_is_a_typed_error() {
    let start = |builder: tickless_durable::cluster::Builder| {
        let started =
            builder.start(|_: &tickless_durable::cluster::Firing<'_, String>| Ok::<(), String>(()));
        match started {
            Err(OpenError::Store(error)) => error.kind(),
            other => panic!("{other:?}"),
        }
    };
    let nowhere = "host=/nowhere user=nobody";
    assert_eq!(start(Cluster::builder(nowhere)), StoreErrorKind::Io);
    assert_eq!(start(Cluster::builder("what is this")), StoreErrorKind::Io);
    assert_eq!(start(Cluster::builder(nowhere).schema("a b")), StoreErrorKind::Denied);
    let Some(place) = Place::new() else { return };
    PostgresStore::make_tables(&place.url, &place.schema, 3).unwrap();
    let builder = || Cluster::builder(&place.url).schema(&place.schema);
    assert_eq!(start(builder().shards(4)), StoreErrorKind::Denied);
    place.client().batch_execute("UPDATE meta SET version = 99").unwrap();
    assert_eq!(start(builder()), StoreErrorKind::Version);
}
