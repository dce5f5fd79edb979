//! A file of a service that does not run, or of one that runs and leaves its file to readers.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tickless_durable::{
    DeadLetter, Key, Op, Position, Record, RedbOptions, Store, StoreError, StoreErrorKind, TimerId,
};

use super::place::{Answer, At, Count, PAGE, Place, Row, Which, read_pages};

pub(crate) struct File {
    path: PathBuf,
    kind: Kind,
    writes: bool,
    migrate: bool,
    /// Until it is let go: see [`Place::let_go`].
    store: Option<Box<dyn Store>>,
}

// === impl File ===

impl File {
    /// Opens a file that is there, to change it or to show it alone.
    pub(crate) fn open(name: &str, writes: bool, migrate: bool) -> Answer<File> {
        let mut file = File::later(name)?;
        (file.writes, file.migrate) = (writes, migrate);
        file.store = Some(file.open_store(true)?);
        Ok(file)
    }

    /// The same, to show it alone, without a check, and not before something is asked for.
    pub(crate) fn later(name: &str) -> Answer<File> {
        let path = PathBuf::from(name);
        Ok(File { kind: Kind::of(&path)?, path, writes: false, migrate: false, store: None })
    }

    fn open_store(&self, check: bool) -> Opened {
        let opened = match self.writes {
            true => self.kind.open_with(&self.path, check, self.migrate, false),
            false => self.kind.open_to_read(&self.path, check),
        };
        opened.map_err(|error| match error.kind() {
            StoreErrorKind::InUse => {
                let name = self.path.display();
                let text = format!("{name} is in use: ask the service that has it open");
                StoreError::caused(StoreErrorKind::InUse, text, error)
            }
            _ => error,
        })
    }

    /// The store, which was checked before if it is opened again.
    fn store(&mut self) -> Answer<&mut dyn Store> {
        let store = match self.store.take() {
            Some(store) => store,
            None => self.open_store(false)?,
        };
        Ok(&mut **self.store.insert(store))
    }

    fn letters(&mut self, limit: usize) -> Answer<Vec<DeadLetter>> {
        let store = self.store()?;
        read_pages(limit, |last: Option<&DeadLetter>, limit| {
            Ok(store.dead_letters(last.map(|last| last.record.position), limit)?)
        })
    }

    /// Makes a change of each letter that is chosen, all in one batch.
    fn change_letters(
        &mut self,
        which: &Which<'_>,
        op: impl Fn(&DeadLetter) -> Op,
    ) -> Answer<Vec<(String, bool)>> {
        let id: Option<TimerId> = which.id()?;
        let mut letters = self.letters(usize::MAX)?;
        letters.retain(|letter| which.has(&letter.record, || Some(letter.id()) == id));
        let batch: Vec<Op> = letters.iter().map(op).collect();
        let outcomes = self.store()?.commit(&batch)?;
        let ids = letters.iter().map(|letter| letter.id().to_string());
        Ok(ids.zip(outcomes.iter().map(Option::is_some)).collect())
    }

    fn change(&mut self, op: Op) -> Answer<bool> {
        Ok(self.store()?.commit(&[op])?.first().is_some_and(Option::is_some))
    }
}

/// Whose file it is.
pub(crate) enum Kind {
    Redb,
    #[cfg(feature = "sqlite")]
    Sqlite,
}

type Opened = Result<Box<dyn Store>, StoreError>;

// === impl Kind ===

impl Kind {
    pub(crate) fn of(path: &Path) -> Answer<Kind> {
        let mut head = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(16).read_to_end(&mut head));
        read.map_err(|error| format!("{}: {error}", path.display()))?;
        if head != b"SQLite format 3\0" {
            return Ok(Kind::Redb);
        }
        #[cfg(feature = "sqlite")]
        return Ok(Kind::Sqlite);
        #[cfg(not(feature = "sqlite"))]
        return Err("this program was built without the feature sqlite".into());
    }

    /// Opens a file, which is made if it does not exist.
    pub(crate) fn open(&self, path: &Path) -> Opened {
        self.open_with(path, true, false, true)
    }

    /// Opens a file that is damaged, as far as that is possible, and may change it.
    pub(crate) fn open_damaged(&self, path: &Path) -> Opened {
        #[cfg(feature = "sqlite")]
        if matches!(self, Kind::Sqlite) {
            lengthen(path).map_err(|error| StoreError::io("the copy cannot be used", error))?;
        }
        self.open_with(path, false, true, false)
    }

    /// Only SQLite's can be read while others have them open.
    fn open_to_read(&self, path: &Path, check: bool) -> Opened {
        match self {
            Kind::Redb => self.open_with(path, check, false, false),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => {
                let options = tickless_durable::SqliteOptions::new().check(check).read_only(true);
                Ok(Box::new(options.open(path)?))
            }
        }
    }

    fn open_with(&self, path: &Path, check: bool, migrate: bool, create: bool) -> Opened {
        Ok(match self {
            Kind::Redb => {
                let options = RedbOptions::new().check(check).create(create);
                Box::new(options.migrate(migrate).open(path)?)
            }
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => {
                let options = tickless_durable::SqliteOptions::new().check(check).create(create);
                Box::new(options.migrate(migrate).open(path)?)
            }
        })
    }
}

/// Gives a file of SQLite's that was cut off the length that its first page says. The pages that it
/// gets cannot be read, and the others can.
#[cfg(feature = "sqlite")]
fn lengthen(path: &Path) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path)?;
    let mut head = [0; 32];
    file.read_exact(&mut head)?;
    let page = match u64::from(u16::from_be_bytes([head[16], head[17]])) {
        1 => 65_536,
        page => page,
    };
    let length = page * u64::from(u32::from_be_bytes([head[28], head[29], head[30], head[31]]));
    if file.metadata()?.len() < length { file.set_len(length) } else { Ok(()) }
}

fn timer(record: Record) -> Row {
    Row { shard: 0, id: record.id().to_string(), record, error: None }
}

pub(crate) fn letter(letter: DeadLetter) -> Row {
    let DeadLetter { record, error, .. } = letter;
    Row { error: Some(error), ..timer(record) }
}

impl Place for File {
    fn list(
        &mut self,
        from: Option<SystemTime>,
        before: Option<SystemTime>,
        limit: usize,
    ) -> Answer<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::new();
        while rows.len() < limit {
            let last = rows.last().map(|last| last.record.position);
            let after = last.or(from.map(Position::before_all_at));
            let mut page = self.store()?.scan(after, PAGE.min(limit - rows.len()))?;
            page.retain(|record| before.is_none_or(|before| record.due() < before));
            if page.is_empty() {
                break;
            }
            rows.extend(page.into_iter().map(timer));
        }
        Ok(rows)
    }

    fn let_go(&mut self) {
        if !matches!(self.kind, Kind::Redb) {
            self.store = None;
        }
    }

    fn reopen(&mut self, to_write: bool) {
        self.store = None;
        self.writes = to_write;
    }

    fn is_alone(&self) -> bool {
        matches!(self.kind, Kind::Redb) || cfg!(not(target_os = "linux"))
    }

    fn timers_after(&mut self, after: Option<At>, limit: usize) -> Answer<Vec<Row>> {
        let found = self.store()?.scan(after.map(|after| after.position), limit)?;
        Ok(found.into_iter().map(timer).collect())
    }

    fn letters_after(&mut self, after: Option<At>, limit: usize) -> Answer<Vec<Row>> {
        let found = self.store()?.dead_letters(after.map(|after| after.position), limit)?;
        Ok(found.into_iter().map(letter).collect())
    }

    fn get(&mut self, id: &str) -> Answer<Option<Row>> {
        Ok(self.store()?.get(id.parse()?)?.map(timer))
    }

    fn count(&mut self) -> Answer<Vec<Count>> {
        Ok(vec![Count { shard: None, contents: self.store()?.contents()? }])
    }

    fn unreadable(&mut self) -> Answer<Vec<Row>> {
        let found = self.store()?.unreadable(None, usize::MAX)?;
        if found.is_empty() {
            // Which reads all of them.
            self.list(None, None, usize::MAX)?;
        }
        self.letters(usize::MAX)?;
        Ok(found.into_iter().map(letter).collect())
    }

    fn cancel(&mut self, id: &str) -> Answer<bool> {
        self.change(Op::Cancel(id.parse()?))
    }

    fn cancel_key(&mut self, key: &str) -> Answer<bool> {
        self.change(Op::CancelKey(key.as_bytes().into()))
    }

    fn reschedule(&mut self, id: &str, at: SystemTime) -> Answer<bool> {
        let Some(record) = self.store()?.get(id.parse()?)? else { return Ok(false) };
        let from = record.position;
        let to = Arc::new(Record { position: Position::at(at, from.number), ..record });
        self.change(Op::Move { from, to })
    }

    fn revive(&mut self, which: &Which<'_>, at: SystemTime) -> Answer<Vec<(String, bool)>> {
        self.change_letters(which, |letter| {
            let to = Arc::new(letter.revived(at));
            Op::Revive { from: letter.record.position, to }
        })
    }

    fn forget(&mut self, which: &Which<'_>) -> Answer<Vec<(String, bool)>> {
        self.change_letters(which, |letter| Op::Forget(letter.record.position))
    }

    fn set_pause(&mut self, prefix: &str, is_paused: bool) -> Answer<bool> {
        if prefix.len() > 1000 {
            return Err("what is paused is named by 1000 bytes at most".into());
        }
        Ok(self.store()?.set_pause(&prefix.as_bytes().into(), is_paused)?)
    }

    fn pauses(&mut self) -> Answer<Vec<Key>> {
        Ok(self.store()?.pauses()?)
    }
}
