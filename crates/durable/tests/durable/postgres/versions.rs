//! Tables that earlier versions have made.

use std::collections::BTreeMap;

use tickless_durable::cluster::{DeadLetter, Firing, Timer};
use tickless_durable::{Cluster, OpenError, StoreErrorKind};

use super::server::Place;
use crate::common;

/// The tables of version 3, in a schema of the test's own.
fn place() -> Option<Place> {
    let place = Place::new()?;
    let written = include_str!("../../fixtures/postgres-3.sql");
    let written = written.replace("old.", &format!("{}.", place.schema));
    let written = written.replace("SCHEMA old;", &format!("SCHEMA {};", place.schema));
    let written = written.replace("TO 'old'", &format!("TO '{}'", place.schema));
    let mut client = place.config().connect(postgres::NoTls).unwrap();
    client.batch_execute(&written).unwrap();
    Some(place)
}

#[test]
fn tables_of_an_earlier_version_are_refused_until_they_are_migrated() {
    let Some(place) = place() else { return };
    let builder = || Cluster::builder(&place.url).schema(&place.schema);
    let Err(OpenError::Store(error)) = builder().observe() else { panic!("it is of version 3") };
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("`tickless-durable migrate`"), "{error}");
    let mut seen = builder().migrate(true).observe().unwrap();
    let (records, letters) = common::fixture::contents();
    let listed: Vec<Timer> = seen.list(None, 9).unwrap();
    assert_eq!(listed.iter().map(|timer| timer.record.clone()).collect::<Vec<_>>(), records);
    let dead: Vec<DeadLetter> = seen.dead_letters(None, 9).unwrap();
    assert_eq!(dead.iter().map(|letter| letter.letter().clone()).collect::<Vec<_>>(), letters);
    // It is found by its key, in the shard that the key has now.
    assert!(seen.cancel_key("order 17").unwrap());
    assert!(builder().observe().is_ok(), "it is of this version now");
    // New tables have the same columns as those, in any order, and so have the views.
    let new = Place::new().unwrap();
    tickless_durable::store::PostgresStore::make_tables(&new.url, &new.schema, 1).unwrap();
    assert_eq!(columns(&place), columns(&new));
}

/// By table or view and column: its type, and whether it can be null.
fn columns(place: &Place) -> BTreeMap<(String, String), (String, String)> {
    let columns = "SELECT table_name::text, column_name::text, data_type::text, is_nullable::text
        FROM information_schema.columns WHERE table_schema = $1
        UNION ALL SELECT tablename::text, indexname::text,
            replace(indexdef, $1 || '.', ''), '' FROM pg_indexes WHERE schemaname = $1
        UNION ALL SELECT proname::text, pg_get_function_identity_arguments(pg_proc.oid),
            replace(prosrc, $1, ''), '' FROM pg_proc
            JOIN pg_namespace ON pronamespace = pg_namespace.oid WHERE nspname = $1";
    let rows = place.client().query(columns, &[&place.schema]).unwrap();
    rows.iter().map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3)))).collect()
}

#[test]
fn nothing_is_changed_while_an_instance_runs_or_if_a_step_fails() {
    let Some(place) = place() else { return };
    let mut client = place.client();
    let builder = || Cluster::builder(&place.url).schema(&place.schema).migrate(true);
    let before = columns(&place);
    let refused = |kind| {
        let Err(OpenError::Store(error)) = builder().observe() else { panic!("it was migrated") };
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(columns(&place), before);
    };
    client.batch_execute("INSERT INTO instances VALUES (7, now() + interval '1 hour')").unwrap();
    refused(StoreErrorKind::InUse);
    // The last statement of the step fails.
    let late = "DELETE FROM instances; CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no'; END $$;
        CREATE TRIGGER no BEFORE UPDATE ON dead_letters FOR EACH ROW EXECUTE FUNCTION no()";
    client.batch_execute(late).unwrap();
    let before = columns(&place);
    let Err(OpenError::Store(error)) = builder().observe() else { panic!("it was migrated") };
    assert!(error.to_string().contains("no"), "{error}");
    assert_eq!(columns(&place), before);
    client.batch_execute("DROP TRIGGER no ON dead_letters; DROP FUNCTION no()").unwrap();
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    builder().start(handler).unwrap().stop().unwrap();
}
