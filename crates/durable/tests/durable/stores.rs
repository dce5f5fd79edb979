//! Every store that comes with the crate does what a store has to.

use std::fs::OpenOptions;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use redb::StorageBackend;
use redb::backends::FileBackend;
use tickless_durable::store::{Disk, Fault};
use tickless_durable::{
    Op, Record, RedbOptions, RedbStore, Store, StoreError, StoreErrorKind, conformance,
};

use crate::common;

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

#[test]
fn a_session_that_the_memory_of_the_tests_forgets_is_not_reported() {
    for fault in [Fault::Lost, Fault::Kept] {
        let disk = Disk::default();
        let fails = |is_failing| {
            if is_failing {
                disk.fail_next(fault);
            }
        };
        conformance::a_session_that_cannot_be_written_is_not_reported(|| Ok(disk.open()), fails);
    }
}

#[test]
fn a_session_that_a_file_of_redb_cannot_take_is_not_reported() {
    // How many writes and syncs work, until all fail.
    for left in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("timers.redb");
        drop(RedbStore::open(&path).unwrap());
        let disk = Arc::new(AtomicU32::new(u32::MAX));
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            RedbOptions::new()
                .open_backend(Failing { file: FileBackend::new(file).unwrap(), left: disk.clone() })
        };
        let fails = |is_failing| disk.store(if is_failing { left } else { u32::MAX }, Relaxed);
        conformance::a_session_that_cannot_be_written_is_not_reported(open, fails);
    }
}

/// A file whose writes and syncs fail from some time on.
#[derive(Debug)]
struct Failing {
    file: FileBackend,
    left: Arc<AtomicU32>,
}

impl Failing {
    fn count(&self) -> io::Result<()> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Err(io::Error::other("the disk has failed"));
        }
        self.left.store(left.saturating_sub(u32::from(left < u32::MAX)), Relaxed);
        Ok(())
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.count().and_then(|()| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.count().and_then(|()| self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.count().and_then(|()| self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// A file that an earlier version has written is as it was until somebody asks for more.
fn becomes_of_this_version<S: Store>(
    written: &[u8],
    open: impl Fn(&std::path::Path, bool) -> Result<S, StoreError>,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("timers");
    std::fs::write(&path, written).unwrap();
    let error = open(&path, false).map(drop).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("`tickless-durable migrate`"), "{error}");
    let (records, letters) = common::fixture::contents();
    for migrate in [true, false, true] {
        let mut store = open(&path, migrate).unwrap();
        assert_eq!(store.scan(None, 9).unwrap(), records);
        assert_eq!(store.dead_letters(None, 9).unwrap(), letters);
    }
    let mut store = open(&path, false).unwrap();
    assert_eq!(store.begin().unwrap(), 2);
    let errors: std::sync::Arc<str> = "1 5 no".into();
    let failed = Record { errors: errors.clone(), ..records[0].clone() };
    let from = failed.position;
    store.commit(&[Op::Move { from, to: failed.into() }]).unwrap();
    assert_eq!(store.scan(None, 1).unwrap()[0].errors, errors);
}

#[test]
fn files_of_earlier_versions_are_refused_until_they_are_migrated() {
    let redb = include_bytes!("../fixtures/redb-1.redb");
    becomes_of_this_version(redb, |path, migrate| RedbOptions::new().migrate(migrate).open(path));
    #[cfg(feature = "sqlite")]
    {
        let sqlite = include_bytes!("../fixtures/sqlite-2.sqlite");
        becomes_of_this_version(sqlite, |path, migrate| {
            tickless_durable::SqliteOptions::new().migrate(migrate).open(path)
        });
    }
}
