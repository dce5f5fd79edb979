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
//! do not permit that ([`HAS_READERS`]), a store keeps all others out.
//!
//! *Invariants*: the `number` of a timer is unique, so that a timer is found by it wherever it is.
//! The digest is the sum of a hash of each row's place and checksum: a row that is missing, or that
//! is of an earlier time, makes it another one. A transaction of the store that writes is open at
//! any time, so that no other program writes; one that does between two of them is noticed.
//!
//! *Tested by*: `tests/durable/stores.rs`, `tests/durable/faults.rs`, `tests/durable/beside.rs`.

use std::fs;
use std::num::TryFromIntError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, ToSql, params};

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId, time_of};
use crate::record::{DeadLetter, Key, Record};

use super::contract::{Contents, Op, Store};
use super::files::make_whole;
use super::list::{self, List};
use super::look::{Claim, HAS_READERS, is_missing, is_open};
use super::version::wrong_version;

/// How long others may hold the file up: one that closes it or repairs its log, for a moment, or a
/// program that writes.
const PATIENCE: Duration = if HAS_READERS { Duration::from_secs(5) } else { Duration::ZERO };

/// How long the log may stay after it had to grow because somebody went on reading.
const LOG_BYTES: i64 = 64 << 20;

/// What marks a database as one of this crate's (`PRAGMA application_id`): "tkls".
const APPLICATION: i64 = 0x746b_6c73;

/// The version of the tables (`PRAGMA user_version`).
const VERSION: i64 = 3;

/// The first one that can be brought up to that, and what each step does.
const FIRST: i64 = 2;
const STEPS: [&str; 1] = ["
    ALTER TABLE timers ADD COLUMN errors TEXT NOT NULL DEFAULT '';
    ALTER TABLE dead_letters ADD COLUMN errors TEXT NOT NULL DEFAULT '';
    CREATE TABLE pauses (prefix BLOB PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;
"];

/// `STRICT`, so that no value comes back as another type.
const TABLES: &str = "
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
    read_only: bool,
    migrate: bool,
}

// === impl SqliteOptions ===

impl SqliteOptions {
    /// The default options.
    pub fn new() -> SqliteOptions {
        SqliteOptions { check: true, read_only: false, migrate: false }
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

    /// Whether a file that an earlier version of this crate has written becomes one of this
    /// version, which the earlier one does not open any more. Default: it is refused. Each step is
    /// one transaction.
    pub fn migrate(mut self, migrate: bool) -> SqliteOptions {
        self.migrate = migrate;
        self
    }

    /// Opens the database at `path`. It is made if it does not exist, unless it is only to be read;
    /// its directory has to exist.
    ///
    /// # Errors
    /// The file cannot be used. Its timers are then as they were; a file without a log may have got
    /// one (`PRAGMA journal_mode`).
    pub fn open(&self, path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let path = path.as_ref();
        if !self.read_only && is_missing(path)? {
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

fn connect(path: &Path, more: OpenFlags) -> Result<Connection, StoreError> {
    let connection = connect_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | more)?;
    if !HAS_READERS {
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(failed)?;
    }
    Ok(connection)
}

fn connect_with(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
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

fn make_tables(connection: &Connection) -> Result<(), StoreError> {
    let tables = format!(
        "BEGIN EXCLUSIVE; {TABLES} PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {VERSION}; COMMIT; PRAGMA journal_mode = WAL;"
    );
    connection.execute_batch(&tables).map_err(failed)
}

/// Sees whose tables these are before anything is written.
fn check(connection: &Connection) -> Result<(), StoreError> {
    let version = layout_of(connection)?;
    if version == VERSION {
        Ok(())
    } else {
        Err(wrong_version("the file", version, FIRST, VERSION))
    }
}

/// The version of the tables, if they are this crate's.
fn layout_of(connection: &Connection) -> Result<i64, StoreError> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("application_id").map_err(failed)? != APPLICATION {
        let message = "the database is not one of timers";
        return Err(StoreError::new(StoreErrorKind::Corrupt, message));
    }
    pragma("user_version").map_err(failed)
}

/// Takes the steps up to this version.
fn migrate(connection: &Connection) -> Result<(), StoreError> {
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
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // A copy that SQLite has made need not have a log, without which readers keep commits waiting.
    let mode = |row: &Row<'_>| row.get::<_, String>(0);
    connection.pragma_update_and_check(None, "journal_mode", "WAL", mode)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
    connection.execute_batch(BEGIN)
}

const BEGIN: &str = "BEGIN IMMEDIATE";

/// Another number if others have written since the last transaction.
fn version_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// Reads all of the file. See [`SqliteOptions::check`].
fn check_all(connection: &Connection) -> Result<(), StoreError> {
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

fn digest_of(connection: &Connection) -> rusqlite::Result<u64> {
    let digest = connection.query_row("SELECT digest FROM meta", [], |row| row.get::<_, i64>(0));
    digest.map(i64::cast_unsigned)
}

/// What tells timers from dead letters in the digest.
const TIMER: u64 = 1;
const LETTER: u64 = 2;

/// Of a row's first three columns: its place and its checksum.
fn hash_of(row: &Row<'_>, salt: u64) -> rusqlite::Result<u64> {
    Ok(hash(row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, salt))
}

/// The finish of SplitMix64 after each part, so that sums of hashes say something.
fn hash(due: i64, number: i64, checksum: i64, salt: u64) -> u64 {
    [due, number, checksum].into_iter().fold(salt, |hash, part| {
        let mut mixed = (hash ^ part.cast_unsigned()).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
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

/// What a row has, whether its checksum says so, and where it is.
type Found<T> = (bool, Position, T);

const COLUMNS: &str =
    "due, number, first_due, attempt, crashes, tried, key, payload, checksum, errors";

fn found_of(row: &Row<'_>) -> rusqlite::Result<Found<Record>> {
    let record = record_of(row)?;
    let is_intact = row.get::<_, i64>(8)? == i64::from(record.checksum());
    Ok((is_intact, record.position, record))
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

/// Changes within a transaction.
struct Changes<'c> {
    connection: &'c Connection,
    digest: u64,
}

impl Changes<'_> {
    fn add(&mut self, position: Position, checksum: u32, salt: u64) {
        let hash = hash(signed(position.due_ms), signed(position.number), checksum.into(), salt);
        self.digest = self.digest.wrapping_add(hash);
    }

    /// Deletes one row at most, and returns where it was.
    fn delete(
        &mut self,
        delete: &str,
        params: &[&dyn ToSql],
        salt: u64,
    ) -> rusqlite::Result<Option<Position>> {
        let delete = format!("{delete} RETURNING due, number, checksum");
        let mut delete = self.connection.prepare_cached(&delete)?;
        let row = |row: &Row<'_>| Ok((position_of(row)?, hash_of(row, salt)?));
        let deleted = delete.query_row(params, row).optional()?;
        let (position, hash) = deleted.unzip();
        self.digest = self.digest.wrapping_sub(hash.unwrap_or(0));
        Ok(position)
    }
}

impl List for Changes<'_> {
    type Error = rusqlite::Error;

    fn put(&mut self, record: &Arc<Record>) -> rusqlite::Result<()> {
        let put = "INSERT INTO timers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        self.connection.prepare_cached(put)?.execute(params![
            signed(record.position.due_ms),
            signed(record.position.number),
            signed(record.first_due_ms),
            record.attempt,
            record.crashes,
            record.tried,
            record.key.as_deref(),
            &*record.payload,
            record.checksum(),
            &*record.errors,
        ])?;
        self.add(record.position, record.checksum(), TIMER);
        Ok(())
    }

    fn bury(&mut self, letter: &Arc<DeadLetter>) -> rusqlite::Result<()> {
        let bury = "INSERT INTO dead_letters VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        self.connection.prepare_cached(bury)?.execute(params![
            signed(letter.record.position.due_ms),
            signed(letter.record.position.number),
            signed(letter.record.first_due_ms),
            letter.record.attempt,
            letter.record.crashes,
            letter.record.tried,
            letter.record.key.as_deref(),
            &*letter.record.payload,
            letter.checksum(),
            letter.error,
            &*letter.record.errors,
        ])?;
        self.add(letter.record.position, letter.checksum(), LETTER);
        Ok(())
    }

    fn take(&mut self, position: Position) -> rusqlite::Result<Option<Position>> {
        let take = "DELETE FROM timers WHERE due = ?1 AND number = ?2";
        self.delete(take, params![signed(position.due_ms), signed(position.number)], TIMER)
    }

    fn take_id(&mut self, id: TimerId) -> rusqlite::Result<Option<Position>> {
        let first = id.first_position();
        if let Some(position) = self.take(first)? {
            return Ok(Some(position));
        }
        let take = "DELETE FROM timers WHERE number = ?1 AND first_due = ?2 AND due <> first_due";
        self.delete(take, params![signed(first.number), signed(first.due_ms)], TIMER)
    }

    fn find_key(&mut self, key: &Key) -> rusqlite::Result<Option<Position>> {
        let find = "SELECT due, number FROM timers WHERE key = ?1";
        self.connection.prepare_cached(find)?.query_row([&**key], position_of).optional()
    }

    fn take_key(&mut self, key: &Key) -> rusqlite::Result<Option<Position>> {
        self.delete("DELETE FROM timers WHERE key = ?1", params![&**key], TIMER)
    }

    fn forget(&mut self, position: Position) -> rusqlite::Result<Option<Position>> {
        let forget = "DELETE FROM dead_letters WHERE due = ?1 AND number = ?2";
        self.delete(forget, params![signed(position.due_ms), signed(position.number)], LETTER)
    }
}

// === values ===

/// What is stored is less than 2^63. A position to read on from may not be, and comes after all.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn position_of(row: &Row<'_>) -> rusqlite::Result<Position> {
    Ok(Position { due_ms: unsigned(row, 0)?, number: unsigned(row, 1)? })
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number = row.get::<_, i64>(column)?;
    u64::try_from(number).map_err(|error| misfit(column, error))
}

fn misfit(column: usize, error: TryFromIntError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error))
}

fn record_of(row: &Row<'_>) -> rusqlite::Result<Record> {
    let count = |column| {
        let count = row.get::<_, i64>(column)?;
        u32::try_from(count).map_err(|error| misfit(column, error))
    };
    Ok(Record {
        position: position_of(row)?,
        first_due_ms: unsigned(row, 2)?,
        attempt: count(3)?,
        crashes: count(4)?,
        tried: row.get::<_, bool>(5)?,
        key: row.get::<_, Option<Vec<u8>>>(6)?.map(Key::from),
        payload: row.get::<_, Vec<u8>>(7)?.into(),
        errors: row.get::<_, String>(9)?.into(),
    })
}

/// SQLite has no checksums of its own.
fn intact<T>((is_intact, position, found): Found<T>) -> Result<T, StoreError> {
    let message = || format!("the checksum of the row at {position:?} does not match");
    is_intact.then_some(found).ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, message()))
}

fn failed(error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    let kind = match code {
        // "Unknown" is a statement that does not fit the file: its format is another, or its
        // tables.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
            StoreErrorKind::Corrupt
        }
        Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreErrorKind::Denied
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::InUse,
        Some(ErrorCode::TooBig) => StoreErrorKind::TooLarge,
        Some(_) => StoreErrorKind::Io,
        // A value or a table that is not as it was made.
        None => StoreErrorKind::Corrupt,
    };
    StoreError::caused(kind, "the timers cannot be used", error)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
