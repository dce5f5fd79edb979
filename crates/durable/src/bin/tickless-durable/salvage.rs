//! Reads out of a damaged file what can be read, into a new one.
//!
//! The file itself is not touched: a copy is read. Where a page cannot be read, reading goes on
//! behind it: at the first position, in the order of times, from which something can be read again.

use std::fs::{self, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tickless_durable::{DeadLetter, Op, Position, Record, Store, StoreError};

use super::file::{Kind, letter};
use super::place::{Answer, Row};

/// How much is read, and written, at a time.
const PAGE: usize = 1024;

/// What became of a file.
#[derive(Default)]
pub(crate) struct Salvaged {
    pub(crate) timers: u64,
    pub(crate) dead_letters: u64,
    /// The records that cannot be read. They are dead letters in the new file.
    pub(crate) unreadable: Vec<Row>,
    /// The positions after which something is missing, and those up to which.
    pub(crate) gaps: Vec<Gap>,
    /// How many were not found, with an error or without; `None`: the file cannot say.
    pub(crate) missing: Option<u64>,
    /// The timers that are not in the new file, because a later one there has their key.
    pub(crate) replaced: Vec<Row>,
    /// The last session that has given a number to a timer, as far as records can be read.
    session: u64,
}

/// The last session after which a file can be opened: the one that then begins has the last
/// numbers.
const LAST_SESSION: u64 = (1 << 23) - 2;

pub(crate) type Gap = (Position, Position);

/// Where one of these is.
trait Placed {
    fn place(&self) -> Position;
}

type Scan<T> = fn(&mut dyn Store, Option<Position>, usize) -> Result<Vec<T>, StoreError>;

/// Makes a file of what can be read out of another.
pub(crate) fn salvage(from: &Path, to: &Path) -> Answer<Salvaged> {
    if to.exists() {
        return Err(format!("{} exists", to.display()).into());
    }
    let kind = Kind::of(from)?;
    let copy = Copy::of(from, to)?;
    let mut damaged = kind.open_damaged(&copy.0)?;
    let mut new = kind.open(to)?;
    let mut salvaged = Salvaged::default();
    salvaged.read(&mut *damaged, &mut *new, |store, after, limit| store.scan(after, limit))?;
    salvaged
        .read(&mut *damaged, &mut *new, |store, after, limit| store.dead_letters(after, limit))?;
    // A page that is damaged can look like one with less in it.
    let there = damaged.contents().ok().map(|there| there.timers + there.dead_letters);
    let found = salvaged.timers + salvaged.dead_letters + salvaged.replaced.len() as u64;
    salvaged.missing = there.map(|there| there.saturating_sub(found));
    // New timers get numbers that none of these has.
    new.begin_at_least(salvaged.session.min(LAST_SESSION))?;
    Ok(salvaged)
}

impl Salvaged {
    /// Nothing is left behind.
    pub(crate) fn is_all(&self) -> bool {
        let is_there = self.unreadable.is_empty() && self.replaced.is_empty();
        is_there && self.gaps.is_empty() && self.missing == Some(0)
    }

    fn read<T: Placed + Kept>(
        &mut self,
        damaged: &mut dyn Store,
        new: &mut dyn Store,
        scan: Scan<T>,
    ) -> Answer<()> {
        let (mut after, mut limit) = (None, PAGE);
        loop {
            match scan(damaged, after, limit) {
                Ok(page) => {
                    let Some(last) = page.last() else { return Ok(()) };
                    (after, limit) = (Some(last.place()), PAGE.min(limit * 2));
                    let sessions = page.iter().map(|one| one.place().number >> 40);
                    self.session = sessions.chain([self.session]).max().unwrap_or(0);
                    let replaced = self.keep(new, page)?;
                    for record in damaged.at(&replaced)? {
                        let error = "another timer has its key";
                        self.replaced.push(letter(DeadLetter::new(record, error)));
                    }
                }
                Err(_) if limit > 1 => limit /= 2,
                Err(_) => match T::unreadable(damaged, after) {
                    // The key of one in a damaged page may be any.
                    Some(one) if Some(one.record.position) > after => {
                        after = Some(one.record.position);
                        self.unreadable.push(letter(one.clone()));
                        self.keep(new, vec![one])?;
                    }
                    _ => {
                        let next = leap(damaged, after, scan);
                        self.gaps.push((after.unwrap_or(Position::FIRST), next));
                        after = Some(next);
                        if next == Position::LAST {
                            return Ok(());
                        }
                    }
                },
            }
        }
    }

    /// Returns where the timers were that it has replaced.
    fn keep<T: Kept>(&mut self, new: &mut dyn Store, page: Vec<T>) -> Answer<Vec<Position>> {
        *T::count(self) += page.len() as u64;
        let ops: Vec<Op> = page.into_iter().flat_map(Kept::ops).collect();
        let puts = |(op, outcome): (&Op, Option<Position>)| match op {
            Op::Put(_) => outcome,
            _ => None,
        };
        let replaced: Vec<Position> = ops.iter().zip(new.commit(&ops)?).filter_map(puts).collect();
        self.timers -= replaced.len() as u64;
        Ok(replaced)
    }
}

/// The first position from which something can be read again, or the last one of all.
fn leap<T>(damaged: &mut dyn Store, after: Option<Position>, scan: Scan<T>) -> Position {
    let at = |both: u128| Position::from_bytes(both.to_be_bytes());
    let mut works = |both: u128| scan(damaged, Some(at(both)), 1).is_ok();
    let mut bad = after.map_or(0, |after| u128::from_be_bytes(after.to_bytes()));
    let mut step = 1_u128;
    let mut good = loop {
        let next = bad.saturating_add(step);
        if next == u128::MAX || works(next) {
            break next;
        }
        (bad, step) = (next, step.saturating_mul(2));
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if works(middle) { good = middle } else { bad = middle }
    }
    at(good)
}

/// What is kept of a file.
trait Kept: Sized {
    /// What adds it to a store.
    fn ops(self) -> Vec<Op>;

    fn count(salvaged: &mut Salvaged) -> &mut u64;

    /// The next one after a position, if it is there and is not one.
    fn unreadable(damaged: &mut dyn Store, after: Option<Position>) -> Option<DeadLetter>;
}

impl Placed for Record {
    fn place(&self) -> Position {
        self.position
    }
}

impl Kept for Record {
    fn ops(self) -> Vec<Op> {
        vec![Op::Put(Arc::new(self))]
    }

    fn count(salvaged: &mut Salvaged) -> &mut u64 {
        &mut salvaged.timers
    }

    fn unreadable(damaged: &mut dyn Store, after: Option<Position>) -> Option<DeadLetter> {
        damaged.unreadable(after, 1).ok()?.pop()
    }
}

impl Placed for DeadLetter {
    fn place(&self) -> Position {
        self.record.position
    }
}

impl Kept for DeadLetter {
    /// Without its key, which a timer may have.
    fn ops(self) -> Vec<Op> {
        let timer = Record { key: None, ..self.record.clone() };
        let from = timer.position;
        vec![Op::Put(Arc::new(timer)), Op::Bury { from, letter: Arc::new(self) }]
    }

    fn count(salvaged: &mut Salvaged) -> &mut u64 {
        &mut salvaged.dead_letters
    }

    fn unreadable(_: &mut dyn Store, _: Option<Position>) -> Option<DeadLetter> {
        None
    }
}

/// A copy of the file, beside the new one, until this is dropped.
struct Copy(PathBuf);

impl Copy {
    fn of(from: &Path, to: &Path) -> Answer<Copy> {
        let _lock = lock(from)?;
        let copy = Copy(with(to, ".damaged"));
        let log = with(from, "-wal");
        let copied = fs::copy(from, &copy.0).and_then(|_| {
            if log.exists() { fs::copy(log, with(&copy.0, "-wal")).map(drop) } else { Ok(()) }
        });
        copied.map_err(|error| format!("{}: {error}", copy.0.display()))?;
        Ok(copy)
    }
}

/// Keeps services from the file, as one keeps others. On systems other than Linux, SQLite keeps
/// them from its own files, and this does not know of it.
fn lock(path: &Path) -> Answer<fs::File> {
    let failed = |error| format!("{}: {error}", path.display());
    let file = fs::File::open(path).map_err(failed)?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            Err(format!("{} is in use: stop the service that has it open", path.display()).into())
        }
        // Where there are no locks, there is no service.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            // What is not there need not go.
            let _ = fs::remove_file(with(&self.0, end));
        }
    }
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
