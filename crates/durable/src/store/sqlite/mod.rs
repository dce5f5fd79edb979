//! A store in a database of SQLite's, which everybody can look into.
//!
//! | table | what is there |
//! |---|---|
//! | `timers` | a row for each timer, in order of `due` and `number` |
//! | `dead_letters` | the same, with the `error` of the last attempt |
//! | `pauses` | how keys begin whose timers do not fire |
//! | `meta` | the number of sessions, and the digest |
//!
//! Times are milliseconds since 1970.
//!
//! *Owner*: one store writes, in one process. It has the lock of the file ([`Claim`]), and SQLite's
//! lock of those who write, which it gives up for a moment at each commit. Stores that only read,
//! and other programs, are beside it, each with a transaction of its own. Where the system's locks
//! do not permit that ([`HAS_READERS`](super::look::HAS_READERS)), a store keeps all others out.
//!
//! *Invariants*: the `number` of a timer is unique, so that a timer is found by it wherever it is.
//! The digest is the sum of a hash of each row's place and checksum: a row that is missing, or that
//! is of an earlier time, makes it another one. A transaction of the store that writes is open at
//! any time, so that no other program writes; one that does between two of them is noticed.
//!
//! *Tested by*: `tests/durable/stores.rs`, `tests/durable/faults.rs`, `tests/durable/beside.rs`.

mod changes;
mod row;
mod tables;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId, time_of};
use crate::record::{DeadLetter, Key, Record};

use super::contract::{Contents, Op, Store};
use super::files::make_whole;
use super::list;
use super::look::{Claim, is_missing, is_open};
use changes::Changes;
use row::{COLUMNS, Found, failed, found_of, intact, record_of, signed, unsigned};
use tables::{
    BEGIN, check, check_all, connect, connect_with, digest_of, make_tables, migrate, prepare,
    version_of,
};

/// A store in one file of [SQLite](https://sqlite.org)'s, with a write-ahead log beside it.
///
/// ```
/// use tickless_durable::SqliteStore;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers.sqlite");
/// let store = SqliteStore::open(&path)?;
/// assert!(SqliteStore::open(&path).is_err(), "one opening at a time");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Any tool that knows SQLite can read it, on Linux also while a service has it open:
/// `SELECT datetime(due / 1000, 'unixepoch'), attempt, key, payload FROM timers`. The log cannot be
/// shortened while somebody goes on reading: it grows by what is written meanwhile, and the next
/// writes after that shorten it. What else would write is told that the database is locked.
/// On other systems, nobody can read the file while a service has it open.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    digest: u64,
    /// By which SQLite tells what others have written; `None`: this store only reads.
    version: Option<i64>,
    /// Dropped after the connection.
    _file: Claim,
}

/// How a [`SqliteStore`] is opened.
///
/// ```
/// use tickless_durable::SqliteOptions;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers.sqlite");
/// let store = SqliteOptions::new().check(false).open(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct SqliteOptions {
    check: bool,
    create: bool,
    read_only: bool,
    migrate: bool,
}

// === impl SqliteOptions ===

impl SqliteOptions {
    /// The default options.
    pub fn new() -> SqliteOptions {
        SqliteOptions { check: true, create: true, read_only: false, migrate: false }
    }

    /// Whether the whole file is checked when it is opened: by SQLite (`PRAGMA integrity_check`),
    /// and whether all timers and dead letters are there. Default: it is.
    ///
    /// That reads the file once, and looks up each timer in the index of keys. Without it, damage
    /// of a page can leave timers out without an error.
    pub fn check(mut self, check: bool) -> SqliteOptions {
        self.check = check;
        self
    }

    /// Whether the store only shows what is in the file at the moment when it is opened. Default:
    /// it does not.
    ///
    /// On Linux, a service of another process may have the file open, or open it meanwhile, and its
    /// log grows until this store is dropped. In one process, and on other systems in all of them,
    /// one store at a time has the file, also if it only reads. [`begin`](Store::begin) and
    /// [`commit`](Store::commit) fail.
    ///
    /// Unless somebody has the file open, it has to be in a place where it may be written.
    ///
    /// ```
    /// use tickless_durable::{SqliteOptions, SqliteStore, Store};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("timers.sqlite");
    /// # drop(SqliteStore::open(&path)?);
    /// let mut store = SqliteOptions::new().read_only(true).open(path)?;
    /// println!("{:?}", store.contents()?);
    /// assert!(store.commit(&[]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> SqliteOptions {
        self.read_only = read_only;
        self
    }

    /// Whether a file that does not exist is made. Default: it is. Otherwise, opening one fails.
    pub fn create(mut self, create: bool) -> SqliteOptions {
        self.create = create;
        self
    }

    /// Whether a file that an earlier version of this crate has written becomes one of this
    /// version, which the earlier one does not open any more. Default: it is refused. Each step is
    /// one transaction.
    pub fn migrate(mut self, migrate: bool) -> SqliteOptions {
        self.migrate = migrate;
        self
    }

    /// Opens the database at `path`. It is made if it does not exist, unless it is only to be read
    /// or [`create`](Self::create) says otherwise; its directory has to exist.
    ///
    /// # Errors
    /// The file cannot be used. Its timers are then as they were; a file without a log may have got
    /// one (`PRAGMA journal_mode`).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let path = path.as_ref();
        if self.create && !self.read_only && is_missing(path)? {
            make_whole(path, |path| {
                let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
                make_tables(&connection)?;
                connection.close().map_err(|(_, error)| failed(error))
            })?;
        }
        // What is beside the file is beside the one that a link leads to.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.read_only { self.open_to_read(path) } else { self.open_to_write(path) }
    }

    fn open_to_write(&self, path: &Path) -> Result<SqliteStore, StoreError> {
        let file = Claim::to_write(path)?;
        let connection = connect(path, OpenFlags::empty())?;
        if self.migrate {
            migrate(&connection)?;
        }
        check(&connection)?;
        prepare(&connection).map_err(failed)?;
        let version = version_of(&connection).map_err(failed)?;
        if self.check {
            check_all(&connection)?;
        }
        let digest = digest_of(&connection).map_err(failed)?;
        Ok(SqliteStore { connection, digest, version: Some(version), _file: file })
    }

    fn open_to_read(&self, path: &Path) -> Result<SqliteStore, StoreError> {
        // Otherwise SQLite makes what it needs beside the file, and takes it away again, for which
        // it has to write.
        let is_open = is_open(path);
        let file = Claim::to_read(path, is_open)?;
        let connection = match is_open {
            true => connect_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
            false => connect(path, OpenFlags::empty())?,
        };
        connection.execute_batch("PRAGMA query_only = ON; BEGIN").map_err(failed)?;
        check(&connection)?;
        if self.check {
            check_all(&connection)?;
        }
        let digest = digest_of(&connection).map_err(failed)?;
        Ok(SqliteStore { connection, digest, version: None, _file: file })
    }
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions::new()
    }
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens the database at `path` with the default [options](SqliteOptions). It is made if it
    /// does not exist.
    ///
    /// # Errors
    /// As [`SqliteOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        SqliteOptions::new().open(path)
    }
}

impl Store for SqliteStore {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.begin_at_least(1)
    }

    fn begin_at_least(&mut self, least: u64) -> Result<u64, StoreError> {
        // The statement alone would be committed when it is reset, and nobody would hear of a
        // failure.
        let session = self.write(|changes| {
            let begin = "UPDATE meta SET sessions = CASE WHEN sessions < 0 THEN sessions
                ELSE max(sessions + 1, ?1) END RETURNING sessions";
            changes.connection.query_row(begin, [signed(least)], |row| row.get::<_, i64>(0))
        });
        u64::try_from(session?)
            .map_err(|_| StoreError::new(StoreErrorKind::Corrupt, "the sessions are negative"))
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        self.write(|changes| list::apply(changes, batch))
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.timers(after, limit)?.into_iter().map(intact).collect()
    }

    fn get(&mut self, id: TimerId) -> Result<Option<Record>, StoreError> {
        let first = id.first_position();
        let get = |beyond: &str| {
            let get = format!("SELECT {COLUMNS} FROM timers WHERE {beyond}");
            let mut get = self.connection.prepare_cached(&get)?;
            get.query_row([signed(first.due_ms), signed(first.number)], found_of).optional()
        };
        let there = get("due = ?1 AND number = ?2").map_err(failed)?;
        let moved = "first_due = ?1 AND number = ?2 AND due <> first_due";
        let found = there.map_or_else(|| get(moved).map_err(failed), |there| Ok(Some(there)))?;
        let found = found.map(intact).transpose()?;
        Ok(found.filter(|record| record.id() == id))
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        let count = "SELECT (SELECT count(*) FROM timers), (SELECT min(due) FROM timers),
            (SELECT count(*) FROM dead_letters)";
        let counted = |row: &Row<'_>| {
            let first = row.get::<_, Option<i64>>(1)?.and_then(|first| u64::try_from(first).ok());
            let (timers, dead_letters) = (unsigned(row, 0)?, unsigned(row, 2)?);
            Ok(Contents { timers, first_due: first.and_then(time_of), dead_letters })
        };
        self.connection.query_row(count, [], counted).map_err(failed)
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        let read = || {
            let mut read = self.connection.prepare_cached("SELECT prefix FROM pauses")?;
            let prefix = |row: &Row<'_>| row.get::<_, Vec<u8>>(0).map(Key::from);
            read.query_map([], prefix)?.collect::<rusqlite::Result<Vec<Key>>>()
        };
        read().map_err(failed)
    }

    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError> {
        let set = match is_paused {
            true => "INSERT INTO pauses VALUES (?1) ON CONFLICT DO NOTHING",
            false => "DELETE FROM pauses WHERE prefix = ?1",
        };
        self.write(|changes| Ok(changes.connection.execute(set, [&**prefix])? > 0))
    }

    fn unreadable(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let found = self.timers(after, limit)?.into_iter();
        let letter = |found: Found<Record>| {
            let record = found.2.clone();
            intact(found).err().map(|error| DeadLetter::unreadable(record, &error))
        };
        Ok(found.filter_map(letter).collect())
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let select = format!("SELECT {COLUMNS}, error FROM dead_letters");
        let found = self.read(&select, after, limit, |row| {
            let letter = DeadLetter::new(record_of(row)?, row.get::<_, String>(10)?);
            let is_intact = row.get::<_, i64>(8)? == i64::from(letter.checksum());
            Ok((is_intact, letter.record.position, letter))
        })?;
        found.into_iter().map(intact).collect()
    }
}

impl SqliteStore {
    /// Makes changes in the transaction that is open, commits it, and begins the next one.
    fn write<T>(
        &mut self,
        change: impl FnOnce(&mut Changes<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.hold()?;
        let mut changes = Changes { connection: &self.connection, digest: self.digest };
        let written = change(&mut changes).and_then(|outcome| {
            let digest = changes.digest;
            if digest != self.digest {
                let update = "UPDATE meta SET digest = ?1";
                self.connection.prepare_cached(update)?.execute([digest.cast_signed()])?;
            }
            self.connection.execute_batch("COMMIT")?;
            Ok((outcome, digest))
        });
        let (outcome, digest) = written.map_err(|error| self.roll_back(failed(error)))?;
        self.digest = digest;
        // This is durable, whatever is wrong now. The next change tells it.
        let _ = self.hold();
        Ok(outcome)
    }

    /// Begins a transaction in which nobody else writes, if there is none.
    fn hold(&mut self) -> Result<(), StoreError> {
        let Some(before) = self.version else {
            let message = "the file was opened only to be read";
            return Err(StoreError::new(StoreErrorKind::Denied, message));
        };
        if !self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch(BEGIN).map_err(failed)?;
        let now = version_of(&self.connection).map_err(failed).and_then(|now| {
            if now != before {
                self.look_again()?;
            }
            Ok(now)
        });
        self.version = Some(now.map_err(|error| self.roll_back(error))?);
        Ok(())
    }

    /// Another program has written. It may have left the timers alone: a new index, for example.
    fn look_again(&self) -> Result<(), StoreError> {
        check(&self.connection)?;
        check_all(&self.connection)?;
        if digest_of(&self.connection).map_err(failed)? == self.digest {
            return Ok(());
        }
        let message = "another program has changed the timers";
        Err(StoreError::new(StoreErrorKind::Corrupt, message))
    }

    /// After a failure, of which the error tells more than what this says.
    fn roll_back(&self, error: StoreError) -> StoreError {
        let _ = self.connection.execute_batch("ROLLBACK");
        error
    }

    fn timers(
        &self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<Found<Record>>, StoreError> {
        self.read(&format!("SELECT {COLUMNS} FROM timers"), after, limit, found_of)
    }

    fn read<T>(
        &self,
        select: &str,
        after: Option<Position>,
        limit: usize,
        decode: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = || match after {
            Some(after) => {
                let beyond = "WHERE (due, number) > (?1, ?2) ORDER BY due, number LIMIT ?3";
                let mut read = self.connection.prepare_cached(&format!("{select} {beyond}"))?;
                let place = params![signed(after.due_ms), signed(after.number), limit];
                read.query_map(place, decode)?.collect::<rusqlite::Result<Vec<T>>>()
            }
            None => {
                let all = "ORDER BY due, number LIMIT ?1";
                let mut read = self.connection.prepare_cached(&format!("{select} {all}"))?;
                read.query_map([limit], decode)?.collect()
            }
        };
        read().map_err(failed)
    }
}
