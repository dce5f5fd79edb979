//! Every store that comes with the crate does what a store has to.

use tickless_durable::store::Disk;
use tickless_durable::{RedbOptions, RedbStore, conformance};

#[test]
fn a_file_of_redb_conforms() {
    conformance::all(|| {
        let directory = tempfile::tempdir().unwrap();
        move || RedbStore::open(directory.path().join("timers.redb"))
    });
}

#[test]
fn a_file_of_redb_conforms_when_it_is_checked_and_nothing_is_cached() {
    conformance::all(|| {
        let directory = tempfile::tempdir().unwrap();
        let options = RedbOptions::new().cache_bytes(0).check(true);
        move || options.open(directory.path().join("timers.redb"))
    });
}

#[test]
fn the_memory_of_the_tests_conforms() {
    conformance::all(|| {
        let disk = Disk::default();
        move || Ok(disk.open())
    });
}

#[cfg(feature = "sqlite")]
#[test]
fn a_file_of_sqlite_conforms() {
    conformance::all(|| {
        let directory = tempfile::tempdir().unwrap();
        move || tickless_durable::SqliteStore::open(directory.path().join("timers.sqlite"))
    });
}
