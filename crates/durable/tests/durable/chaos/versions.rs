//! A deploy of a version that has other tables than the one before: instances of that one go on
//! until the last of them is gone, and are refused afterwards.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tickless_durable::{Cluster, OpenError, StoreErrorKind};

use super::Run;
use super::postgres::Pair;
use super::worker::{Job, LEASE, OTHER, Worker};

/// The variable with the program of the tests of chaos of an earlier version, with its tables.
const OLDER: &str = "DURABLE_OLDER";

#[test]
fn tables_of_another_version_are_refused_until_all_instances_of_it_are_gone() {
    let Some(older) = std::env::var_os(OLDER).map(PathBuf::from) else {
        return println!("left out: a deploy from an earlier version, which {OLDER} would name");
    };
    let mut run = Run::new("versions");
    let Some(server) = Pair::start_one(&run.directory) else { return };
    let (place, ledger) = (server.url(), run.ledger());
    // Both write down moments by the same clock.
    let dress = |command: &mut Command| {
        command.env(OTHER, &older);
    };
    // The chaos was a program of its own once.
    let is_alone =
        older.file_name().is_some_and(|name| name.to_string_lossy().starts_with("chaos-"));
    let test = if is_alone { "child" } else { "chaos::child" };
    let start = |is_older: bool, number: u64, drains: bool| {
        let job = Job { store: "postgres".to_owned(), place: place.clone(), number, drains };
        match is_older {
            true => Worker::start_as((&older, test), &job, &ledger, dress),
            false => Worker::start(&job, &ledger, dress),
        }
    };
    let refused = |migrates: bool| {
        let builder = Cluster::builder(&place).schema("chaos").migrate(migrates);
        match builder.observe() {
            Err(OpenError::Store(error)) => (error.kind(), error.to_string()),
            other => panic!("{other:?}"),
        }
    };
    let before = [start(true, 1, false), start(true, 2, false)];
    before.iter().for_each(|worker| assert_eq!(worker.hear(), "works"));
    thread::sleep(Duration::from_secs(3));
    let (kind, text) = refused(false);
    assert!(kind == StoreErrorKind::Version && text.contains("migrate"), "{text}");
    assert_eq!(refused(true).0, StoreErrorKind::InUse, "they run");
    // They have gone on, and go on when one is left.
    let [first, last] = before;
    drop(first);
    assert_eq!(refused(true).0, StoreErrorKind::InUse, "one runs");
    thread::sleep(LEASE);
    drop(last);
    run.count("instances of the earlier version");
    run.count("instances of the earlier version");
    // Their leases end.
    while is_refused(&place) {
        thread::sleep(Duration::from_millis(100));
    }
    let late = start(true, 3, false);
    assert_eq!(late.hear_within(Duration::from_secs(3)), None, "the tables are newer");
    drop(late);
    let after = [start(false, 4, false), start(false, 5, false)];
    after.iter().for_each(|worker| assert_eq!(worker.hear(), "works"));
    thread::sleep(Duration::from_secs(3));
    drop(after);
    run.count("instances of this version");
    run.count("instances of this version");
    let end = start(false, 6, true);
    assert_eq!((end.hear(), end.hear()), ("works".to_owned(), "drained 0".to_owned()));
    drop(server);
    println!("{}", run.check());
}

/// What the command line says: whether an instance still runs.
fn is_refused(place: &str) -> bool {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
    let output = program.args([place, "--schema", "chaos", "migrate"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("an instance is running"), "{said}");
    !output.status.success()
}
