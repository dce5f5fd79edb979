//! The tables of a file: how they are made, checked and migrated, and how a connection is set.
//!
//! *Owner*: the thread that opens a store, and then that of the store.
//!
//! *Tested by*: `tests/durable/stores.rs`, `tests/durable/faults.rs`, `tests/durable/beside.rs`.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row};

use crate::error::{StoreError, StoreErrorKind};
use crate::store::look::HAS_READERS;
use crate::store::version::wrong_version;

use super::row::{LETTER, TIMER, failed, hash_of};

/// How long others may hold the file up: one that closes it or repairs its log, for a moment, or a
/// program that writes.
pub(super) const PATIENCE: Duration =
    if HAS_READERS { Duration::from_secs(5) } else { Duration::ZERO };

/// How long the log may stay after it had to grow because somebody went on reading.
pub(super) const LOG_BYTES: i64 = 64 << 20;

/// What marks a database as one of this crate's (`PRAGMA application_id`): "tkls".
pub(super) const APPLICATION: i64 = 0x746b_6c73;

/// The version of the tables (`PRAGMA user_version`).
pub(super) const VERSION: i64 = 3;

/// The first one that can be brought up to that, and what each step does.
pub(super) const FIRST: i64 = 2;
pub(super) const STEPS: [&str; 1] = ["
    ALTER TABLE timers ADD COLUMN errors TEXT NOT NULL DEFAULT '';
    ALTER TABLE dead_letters ADD COLUMN errors TEXT NOT NULL DEFAULT '';
    CREATE TABLE pauses (prefix BLOB PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;
"];

/// `STRICT`, so that no value comes back as another type.
pub(super) const TABLES: &str = "
    CREATE TABLE timers (
        due INTEGER NOT NULL,
        number INTEGER NOT NULL,
        first_due INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        crashes INTEGER NOT NULL,
        tried INTEGER NOT NULL,
        key BLOB,
        payload BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        errors TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (due, number)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX timers_by_key ON timers (key) WHERE key IS NOT NULL;
    CREATE INDEX timers_moved ON timers (number) WHERE due <> first_due;
    CREATE TABLE dead_letters (
        due INTEGER NOT NULL,
        number INTEGER NOT NULL,
        first_due INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        crashes INTEGER NOT NULL,
        tried INTEGER NOT NULL,
        key BLOB,
        payload BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        error TEXT NOT NULL,
        errors TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (due, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE pauses (prefix BLOB PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE meta (sessions INTEGER NOT NULL, digest INTEGER NOT NULL) STRICT;
    INSERT INTO meta VALUES (0, 0);
";

pub(super) fn connect(path: &Path, more: OpenFlags) -> Result<Connection, StoreError> {
    let connection = connect_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | more)?;
    if !HAS_READERS {
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(failed)?;
    }
    Ok(connection)
}

pub(super) fn connect_with(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    // A commit is synced before it returns. On systems of Apple's, a sync alone leaves it in the
    // cache of the drive.
    let syncs =
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON";
    connection.execute_batch(syncs).map_err(failed)?;
    Ok(connection)
}

pub(super) fn make_tables(connection: &Connection) -> Result<(), StoreError> {
    let tables = format!(
        "BEGIN EXCLUSIVE; {TABLES} PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {VERSION}; COMMIT; PRAGMA journal_mode = WAL;"
    );
    connection.execute_batch(&tables).map_err(failed)
}

/// Sees whose tables these are before anything is written.
pub(super) fn check(connection: &Connection) -> Result<(), StoreError> {
    let version = layout_of(connection)?;
    if version == VERSION {
        Ok(())
    } else {
        Err(wrong_version("the file", version, FIRST, VERSION))
    }
}

/// The version of the tables, if they are this crate's.
pub(super) fn layout_of(connection: &Connection) -> Result<i64, StoreError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("application_id").map_err(failed)? != APPLICATION {
        let message = "the database is not one of timers";
        return Err(StoreError::new(StoreErrorKind::Corrupt, message));
    }
    pragma("user_version").map_err(failed)
}

/// Takes the steps up to this version.
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
    let version = layout_of(connection)?;
    if version < FIRST {
        return Ok(());
    }
    for (step, next) in STEPS.iter().zip(FIRST + 1..).filter(|(_, next)| *next > version) {
        let all = format!("BEGIN EXCLUSIVE; {step} PRAGMA user_version = {next}; COMMIT");
        connection.execute_batch(&all).map_err(|error| {
            // Nothing of the step is left.
            let _ = connection.execute_batch("ROLLBACK");
            failed(error)
        })?;
    }
    Ok(())
}

/// Takes the lock of those who write.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // A copy that SQLite has made need not have a log, without which readers keep commits waiting.
    let mode = |row: &Row<'_>| row.get::<_, String>(0);
    connection.pragma_update_and_check(None, "journal_mode", "WAL", mode)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
    connection.execute_batch(BEGIN)
}

pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// Another number if others have written since the last transaction.
pub(super) fn version_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// Reads all of the file. See [`SqliteOptions::check`].
pub(super) fn check_all(connection: &Connection) -> Result<(), StoreError> {
    let corrupt = |message: String| StoreError::new(StoreErrorKind::Corrupt, message);
    let integrity = "PRAGMA integrity_check(1)";
    let says: String = connection.query_row(integrity, [], |row| row.get(0)).map_err(failed)?;
    if says != "ok" {
        return Err(corrupt(format!("the file is damaged: {says}")));
    }
    let mut digest = 0_u64;
    for (salt, table) in [(TIMER, "timers"), (LETTER, "dead_letters")] {
        let mut read = || {
            let rows = format!("SELECT due, number, checksum FROM {table}");
            let mut rows = connection.prepare(&rows)?;
            let hashes = rows.query_map([], |row| hash_of(row, salt))?;
            for hash in hashes {
                digest = digest.wrapping_add(hash?);
            }
            Ok(())
        };
        read().map_err(failed)?;
    }
    if digest != digest_of(connection).map_err(failed)? {
        return Err(corrupt("timers are missing, or are as they were before".to_owned()));
    }
    Ok(())
}

pub(super) fn digest_of(connection: &Connection) -> rusqlite::Result<u64> {
    let digest = connection.query_row("SELECT digest FROM meta", [], |row| row.get::<_, i64>(0));
    digest.map(i64::cast_unsigned)
}
