//! A program that writes in the moment in which no transaction is open.

use std::sync::Arc;
use std::time::Duration;

use super::*;

fn record(number: u64) -> Op {
    Op::Put(Arc::new(Record::new(Position { due_ms: 5, number }, None, [7; 9].into())))
}

/// A store with some timers, without a transaction, and another connection.
fn between_two() -> (tempfile::TempDir, SqliteStore, Connection) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timers");
    let mut store = SqliteStore::open(&path).unwrap();
    store.commit(&[record(1), record(2)]).unwrap();
    assert!(!store.connection.is_autocommit());
    store.connection.execute_batch("ROLLBACK").unwrap();
    (directory, store, Connection::open(path).unwrap())
}

#[test]
fn timers_that_another_program_changes_are_noticed_at_the_next_commit() {
    for change in [
        "DELETE FROM timers WHERE number = 1",
        "UPDATE timers SET due = 4 WHERE number = 1",
        "UPDATE timers SET checksum = 4 WHERE number = 1",
        "UPDATE meta SET digest = 4",
        "PRAGMA user_version = 4",
    ] {
        let (_directory, mut store, other) = between_two();
        other.execute_batch(change).unwrap();
        for _ in 0..2 {
            let error = store.commit(&[record(3)]).unwrap_err();
            let kinds = [StoreErrorKind::Corrupt, StoreErrorKind::Version];
            assert!(kinds.contains(&error.kind()), "{change}: {error:?}");
            assert!(store.begin().is_err(), "{change}");
        }
    }
}

/// As by a copy from before, which is right by itself.
#[test]
fn a_file_that_another_program_sets_back_is_noticed() {
    let (_directory, mut store, other) = between_two();
    let before = store.digest;
    store.commit(&[record(3)]).unwrap();
    store.connection.execute_batch("ROLLBACK").unwrap();
    let back = format!(
        "DELETE FROM timers WHERE number = 3; UPDATE meta SET digest = {}",
        before.cast_signed()
    );
    other.execute_batch(&back).unwrap();
    let error = store.commit(&[record(4)]).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error:?}");
}

#[test]
fn what_another_program_writes_beside_the_timers_does_no_harm() {
    let (_directory, mut store, other) = between_two();
    other.execute_batch("CREATE INDEX others ON timers (attempt)").unwrap();
    assert_eq!(store.commit(&[record(3)]).unwrap(), [None]);
    let seen = store.version;
    assert_eq!(store.commit(&[record(4)]).unwrap(), [None]);
    assert_eq!(store.version, seen, "its own commits are not another's");
    assert_eq!(store.contents().unwrap().timers, 4);
}

#[test]
fn a_commit_waits_for_a_program_that_writes_at_that_moment() {
    let (_directory, mut store, other) = between_two();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let committed = scope.spawn(|| store.commit(&[record(3)]));
        std::thread::sleep(Duration::from_millis(20));
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(committed.join().unwrap().unwrap(), [None]);
    });
}
