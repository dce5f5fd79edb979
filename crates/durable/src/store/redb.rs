//! The default store: a file of redb's, a copy-on-write B+tree without dependencies.
//!
//! Deletes at the head of such a tree leave nothing behind, which is where timers are taken out.
//!
//! *Invariants*: a file comes into being whole, under another name, so an empty file is never one
//! of ours. `keys` has a position for each timer with a key; `moved` has one for each timer that is
//! not where its number says.
//!
//! *Tested by*: `tests/durable/stores.rs`, `tests/durable/faults.rs`.

use std::fs;
use std::io;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageBackend, Table,
    TableDefinition,
};

use crate::error::{StoreError, StoreErrorKind, kind_of};
use crate::position::{Position, TimerId, time_of};
use crate::record::{DeadLetter, Key, Record};

use super::contract::{Contents, Op, Store};
use super::files::make_whole;
use super::list::{self, List};
use super::version::wrong_version;

/// A position as a key.
type Place = [u8; 16];

const TIMERS: TableDefinition<'_, Place, &[u8]> = TableDefinition::new("timers");
const KEYS: TableDefinition<'_, &[u8], Place> = TableDefinition::new("keys");
/// By a timer's number, where it is.
const MOVED: TableDefinition<'_, u64, Place> = TableDefinition::new("moved");
const LETTERS: TableDefinition<'_, Place, &[u8]> = TableDefinition::new("dead letters");
/// How keys begin whose timers do not fire.
const PAUSES: TableDefinition<'_, &[u8], ()> = TableDefinition::new("pauses");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const SESSIONS: &str = "sessions";
/// The version of the tables, which the first one did not have.
const LAYOUT: &str = "version";
const VERSION: u64 = 2;

/// Bytes of the file that are kept in memory, unless told otherwise.
const CACHE: usize = 64 << 20;

/// A store in one file, by [redb](https://docs.rs/redb).
///
/// ```
/// use tickless_durable::RedbStore;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers.redb");
/// let store = RedbStore::open(&path)?;
/// assert!(RedbStore::open(&path).is_err(), "one opening at a time");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RedbStore {
    /// `None` while it is being dropped.
    database: Option<Database>,
    /// How long the records and letters were that were taken out.
    taken_bytes: u64,
}

/// How a [`RedbStore`] is opened.
///
/// ```
/// use tickless_durable::RedbOptions;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers.redb");
/// let store = RedbOptions::new().cache_bytes(16 << 20).check(true).open(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct RedbOptions {
    cache_bytes: usize,
    check: bool,
    create: bool,
    migrate: bool,
}

// === impl RedbOptions ===

impl RedbOptions {
    /// The default options.
    pub fn new() -> RedbOptions {
        RedbOptions { cache_bytes: CACHE, check: true, create: true, migrate: false }
    }

    /// How much of the file is kept in memory. Default: 64 MiB.
    ///
    /// With a larger cache, a store with many timers reads less when it writes.
    pub fn cache_bytes(mut self, bytes: usize) -> RedbOptions {
        self.cache_bytes = bytes;
        self
    }

    /// Whether the whole file is checked when it is opened, page by page. Default: it is.
    ///
    /// That reads the file once. Without it, the file is checked after a crash alone, and damage of
    /// a page that is not a record's can leave timers out without an error.
    pub fn check(mut self, check: bool) -> RedbOptions {
        self.check = check;
        self
    }

    /// Whether a file that does not exist is made. Default: it is. Otherwise, opening one fails.
    pub fn create(mut self, create: bool) -> RedbOptions {
        self.create = create;
        self
    }

    /// Whether a file that an earlier version of this crate has written becomes one of this
    /// version, which the earlier one may not read any more. Default: it is refused. Each step is
    /// one transaction.
    pub fn migrate(mut self, migrate: bool) -> RedbOptions {
        self.migrate = migrate;
        self
    }

    /// Opens the file. It is made if it does not exist, unless [`create`](Self::create) says
    /// otherwise; its directory has to exist.
    ///
    /// # Errors
    /// The file cannot be used; it is then as it was.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<RedbStore, StoreError> {
        let path = path.as_ref();
        let io = |error| StoreError::io(format!("{} cannot be opened", path.display()), error);
        match fs::metadata(path) {
            Ok(found) if found.len() == 0 => {
                let message = format!("{} is empty: it was cut off", path.display());
                return Err(StoreError::new(StoreErrorKind::Corrupt, message));
            }
            Ok(_) => {}
            Err(error) if self.create && error.kind() == io::ErrorKind::NotFound => {
                make_whole(path, create)?;
            }
            Err(error) => return Err(io(error)),
        }
        let opened = guarded(|| self.builder().open(path))?;
        let database = opened.map_err(|error| failed(path.display(), error))?;
        let store = RedbStore { database: Some(database), taken_bytes: 0 };
        let version = guarded(|| version_of(store.database()))?;
        match version.map_err(|error| failed(path.display(), error))? {
            VERSION => {}
            1 if self.migrate => {
                let made = guarded(|| make_tables(store.database()))?;
                made.map_err(|error| failed(path.display(), error))?;
            }
            version => {
                let version = i64::try_from(version).unwrap_or(i64::MAX);
                let wanted = VERSION.cast_signed();
                return Err(wrong_version(&path.display().to_string(), version, 1, wanted));
            }
        }
        Ok(store)
    }

    /// Opens what `backend` has, or begins in it if it is empty. This is for tests.
    #[doc(hidden)]
    pub fn open_backend(&self, backend: impl StorageBackend) -> Result<RedbStore, StoreError> {
        let opened = guarded(|| self.builder().create_with_backend(backend))?;
        let database = opened.map_err(|error| failed("the storage", error))?;
        make_tables(&database).map_err(|error| failed("the storage", error))?;
        Ok(RedbStore { database: Some(database), taken_bytes: 0 })
    }

    fn builder(&self) -> redb::Builder {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(self.cache_bytes).set_check_integrity_on_open(self.check);
        builder
    }
}

impl Default for RedbOptions {
    fn default() -> RedbOptions {
        RedbOptions::new()
    }
}

fn create(path: &Path) -> Result<(), StoreError> {
    let made = (|| {
        let database = redb::Builder::new().set_cache_size(0).create(path)?;
        make_tables(&database)?;
        database.close()?;
        Ok::<(), redb::Error>(())
    })();
    made.map_err(|error| failed(path.display(), error))
}

fn make_tables(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    write.open_table(TIMERS)?;
    write.open_table(KEYS)?;
    write.open_table(MOVED)?;
    write.open_table(LETTERS)?;
    write.open_table(PAUSES)?;
    write.open_table(META)?.insert(LAYOUT, VERSION)?;
    write.commit()?;
    Ok(())
}

fn version_of(database: &Database) -> Result<u64, redb::Error> {
    let meta = database.begin_read()?.open_table(META)?;
    Ok(meta.get(LAYOUT)?.map_or(1, |version| version.value()))
}

// === impl RedbStore ===

impl RedbStore {
    /// Opens the file at `path` with the default [options](RedbOptions). It is made if it does not
    /// exist.
    ///
    /// # Errors
    /// As [`RedbOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<RedbStore, StoreError> {
        RedbOptions::new().open(path)
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is there until the store is dropped")
    }

    /// How many bytes were taken out since the opening.
    #[cfg(feature = "nats")]
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Reads a table from after a position on.
    fn read<T>(
        &self,
        table: TableDefinition<'_, Place, &'static [u8]>,
        after: Option<Position>,
        limit: usize,
        decode: impl Fn(Position, &[u8]) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let read = || {
            let table = self.database().begin_read()?.open_table(table)?;
            let after = after.map(Position::to_bytes);
            let beyond = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
            let mut found = Vec::new();
            for item in table.range::<Place>(beyond)?.take(limit) {
                let (place, value) = item?;
                found.push(decode(Position::from_bytes(place.value()), value.value()));
            }
            Ok::<_, redb::Error>(found)
        };
        let found = guarded(read)?.map_err(|error| failed("the timers", error))?;
        found.into_iter().collect()
    }
}

/// The file is closed in good order, where a damaged one can make redb panic. It is then as after a
/// crash.
impl Drop for RedbStore {
    fn drop(&mut self) {
        let database = self.database.take();
        let _ = guarded(|| drop(database));
    }
}

impl Store for RedbStore {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.begin_at_least(1)
    }

    fn begin_at_least(&mut self, least: u64) -> Result<u64, StoreError> {
        let begin = || {
            let write = self.database().begin_write()?;
            let mut meta = write.open_table(META)?;
            let session = (meta.get(SESSIONS)?.map_or(0, |count| count.value()) + 1).max(least);
            meta.insert(SESSIONS, session)?;
            drop(meta);
            write.commit()?;
            Ok::<u64, redb::Error>(session)
        };
        guarded(begin)?.map_err(|error| failed("the timers", error))
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let commit = || {
            let write = self.database().begin_write()?;
            let mut tables = Tables {
                timers: write.open_table(TIMERS)?,
                keys: write.open_table(KEYS)?,
                moved: write.open_table(MOVED)?,
                letters: write.open_table(LETTERS)?,
                taken_bytes: self.taken_bytes,
            };
            let outcomes = list::apply(&mut tables, batch)?;
            let changes = |(op, outcome): (&Op, &Option<Position>)| match op {
                Op::Put(_) => true,
                Op::PutNew(_) => outcome.is_none(),
                _ => outcome.is_some(),
            };
            let is_changed = batch.iter().zip(&outcomes).any(changes);
            let taken_bytes = tables.taken_bytes;
            drop(tables);
            // A commit costs a sync, also without a change.
            if is_changed {
                write.commit()?
            } else {
                write.abort()?
            }
            Ok::<_, redb::Error>((outcomes, taken_bytes))
        };
        let committed = guarded(commit)?.map_err(|error| failed("the timers", error));
        let (outcomes, taken_bytes) = committed?;
        self.taken_bytes = taken_bytes;
        Ok(outcomes)
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read(TIMERS, after, limit, Record::decode)
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.read(LETTERS, after, limit, DeadLetter::decode)
    }

    fn get(&mut self, id: TimerId) -> Result<Option<Record>, StoreError> {
        let first = id.first_position();
        let get = || {
            let read = self.database().begin_read()?;
            let moved = read.open_table(MOVED)?.get(first.number)?.map(|place| place.value());
            let position = moved.map_or(first, Position::from_bytes);
            let value = read.open_table(TIMERS)?.get(position.to_bytes())?;
            Ok::<_, redb::Error>(value.map(|value| Record::decode(position, value.value())))
        };
        let found = guarded(get)?.map_err(|error| failed("the timers", error))?.transpose()?;
        Ok(found.filter(|record| record.id() == id))
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        let count = || {
            let read = self.database().begin_read()?;
            let timers = read.open_table(TIMERS)?;
            let first = timers.first()?.map(|(place, _)| Position::from_bytes(place.value()));
            let (timers, letters) = (timers.len()?, read.open_table(LETTERS)?.len()?);
            Ok::<_, redb::Error>((timers, first, letters))
        };
        let counted = guarded(count)?.map_err(|error| failed("the timers", error))?;
        let (timers, first, dead_letters) = counted;
        let first_due = first.and_then(|first| time_of(first.due_ms));
        Ok(Contents { timers, first_due, dead_letters })
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        let read = || {
            let table = self.database().begin_read()?.open_table(PAUSES)?;
            let all = table.iter()?.map(|item| Ok(item?.0.value().into()));
            all.collect::<Result<Vec<Key>, redb::Error>>()
        };
        guarded(read)?.map_err(|error| failed("the timers", error))
    }

    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError> {
        let set = || {
            let write = self.database().begin_write()?;
            let mut table = write.open_table(PAUSES)?;
            let before = match is_paused {
                true => table.insert(&**prefix, ())?.is_some(),
                false => table.remove(&**prefix)?.is_some(),
            };
            drop(table);
            write.commit()?;
            Ok::<bool, redb::Error>(before != is_paused)
        };
        guarded(set)?.map_err(|error| failed("the timers", error))
    }

    fn unreadable(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let found = self.read(TIMERS, after, limit, |position, bytes| {
            let error = Record::decode(position, bytes).err();
            let error = error.filter(|error| error.kind() == StoreErrorKind::Corrupt);
            let record = || Record::new(position, None, bytes.into());
            Ok(error.map(|error| DeadLetter::unreadable(record(), &error)))
        })?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// The tables within a transaction.
struct Tables<'t> {
    timers: Table<'t, Place, &'static [u8]>,
    keys: Table<'t, &'static [u8], Place>,
    moved: Table<'t, u64, Place>,
    letters: Table<'t, Place, &'static [u8]>,
    taken_bytes: u64,
}

impl List for Tables<'_> {
    type Error = redb::Error;

    fn put(&mut self, record: &Arc<Record>) -> Result<(), redb::Error> {
        let place = record.position.to_bytes();
        if let Some(key) = &record.key {
            self.keys.insert(&**key, place)?;
        }
        if record.has_moved() {
            self.moved.insert(record.position.number, place)?;
        }
        let before = self.timers.insert(place, record.encode().as_slice())?;
        self.taken_bytes += before.map_or(0, |before| before.value().len() as u64);
        Ok(())
    }

    fn bury(&mut self, letter: &Arc<DeadLetter>) -> Result<(), redb::Error> {
        let place = letter.record.position.to_bytes();
        let before = self.letters.insert(place, letter.encode().as_slice())?;
        self.taken_bytes += before.map_or(0, |before| before.value().len() as u64);
        Ok(())
    }

    fn take_id(&mut self, id: TimerId) -> Result<Option<Position>, redb::Error> {
        let first = id.first_position();
        let moved = self.moved.get(first.number)?.map(|place| Position::from_bytes(place.value()));
        let Some(position) = moved else { return self.take(first) };
        // The number of another store's timer can be the same, and then its time is another one.
        let is_another = self.timers.get(position.to_bytes())?.is_some_and(|value| {
            Record::decode(position, value.value()).is_ok_and(|record| record.id() != id)
        });
        if is_another { Ok(None) } else { self.take(position) }
    }

    fn find_key(&mut self, key: &Key) -> Result<Option<Position>, redb::Error> {
        let place = self.keys.get(&**key)?.map(|place| place.value());
        let Some(place) = place else { return Ok(None) };
        // The key of a record that could not be read when it was taken out finds nothing.
        Ok(self.timers.get(place)?.map(|_| Position::from_bytes(place)))
    }

    fn take_key(&mut self, key: &Key) -> Result<Option<Position>, redb::Error> {
        let place = self.keys.get(&**key)?.map(|place| place.value());
        place.map_or(Ok(None), |place| self.take(Position::from_bytes(place)))
    }

    fn take(&mut self, position: Position) -> Result<Option<Position>, redb::Error> {
        let Some(value) = self.timers.remove(position.to_bytes())? else { return Ok(None) };
        self.taken_bytes += value.value().len() as u64;
        let Ok(record) = Record::decode(position, value.value()) else { return Ok(Some(position)) };
        if let Some(key) = &record.key {
            self.keys.remove(&**key)?;
        }
        if record.has_moved() {
            self.moved.remove(position.number)?;
        }
        Ok(Some(position))
    }

    fn forget(&mut self, position: Position) -> Result<Option<Position>, redb::Error> {
        let letter = self.letters.remove(position.to_bytes())?;
        self.taken_bytes += letter.as_ref().map_or(0, |letter| letter.value().len() as u64);
        Ok(letter.map(|_| position))
    }
}

// === failures ===

/// Runs what uses the database. It panics where a damaged page misleads it.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, StoreError> {
    // Nothing of the store is used after a failure.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        StoreError::new(StoreErrorKind::Corrupt, format!("the file cannot be read: {text}"))
    })
}

fn failed(what: impl std::fmt::Display, error: impl Into<redb::Error>) -> StoreError {
    let error = error.into();
    let kind = match &error {
        redb::Error::Io(error) => kind_of(error),
        redb::Error::Corrupted(_) => StoreErrorKind::Corrupt,
        redb::Error::UpgradeRequired(_) => StoreErrorKind::Version,
        redb::Error::DatabaseAlreadyOpen => StoreErrorKind::InUse,
        redb::Error::ValueTooLarge(_) => StoreErrorKind::TooLarge,
        redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. } => {
            StoreErrorKind::Corrupt
        }
        _ => StoreErrorKind::Io,
    };
    StoreError::caused(kind, format!("{what} cannot be used"), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_version_of_redb_is_told_from_a_damaged_one() {
        let kind = |error| failed("the file", error).kind();
        assert_eq!(kind(redb::Error::UpgradeRequired(1)), StoreErrorKind::Version);
        assert_eq!(kind(redb::Error::Corrupted("page".into())), StoreErrorKind::Corrupt);
    }
}
