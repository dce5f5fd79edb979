//! Looking at a file before SQLite does, which would repair or begin anew what is damaged.
//!
//! *Owner*: any thread that opens a store.
//!
//! *Tested by*: `tests/durable/faults.rs`.

#[cfg(unix)]
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

use crate::error::{StoreError, StoreErrorKind};

/// How a file of SQLite's begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Whether a store that writes leaves the file to others who read it. There a lock of the whole
/// file (`flock`) does not meet those that SQLite takes (`fcntl`), so it keeps a second writer out.
/// Elsewhere SQLite's own lock does that, and keeps readers out as well.
pub(super) const HAS_READERS: bool = cfg!(target_os = "linux");

/// A file that this process has open, or is about to open, for as long as this lives.
///
/// Where SQLite locks a file for a process (`fcntl`), the lock is gone as soon as the process
/// closes any descriptor of that file. So nothing else here may open a file that a store has open,
/// not even in order to see that it is in use.
#[derive(Debug)]
pub(super) struct Claim {
    #[cfg(unix)]
    file: (u64, u64),
    /// Locked, so that no other process writes.
    lock: Option<File>,
}

#[cfg(unix)]
static CLAIMED: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

impl Claim {
    /// For a store that writes. It is the only one, in all processes.
    pub(super) fn to_write(path: &Path) -> Result<Claim, StoreError> {
        let mut claim = Claim::of(path)?;
        let mut file = open(path, true)?;
        if HAS_READERS {
            lock(path, &file)?;
            look(path, claim.lock.insert(file))?;
        } else {
            look(path, &mut file)?;
        }
        Ok(claim)
    }

    /// For a store that only reads. Unless somebody has the file open, SQLite needs to write.
    pub(super) fn to_read(path: &Path, is_open: bool) -> Result<Claim, StoreError> {
        let claim = Claim::of(path)?;
        look(path, &mut open(path, !is_open)?)?;
        Ok(claim)
    }

    #[cfg(unix)]
    fn of(path: &Path) -> Result<Claim, StoreError> {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(path).map_err(|error| cannot_be_opened(path, error))?;
        let file = (found.dev(), found.ino());
        if CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).insert(file) {
            return Ok(Claim { file, lock: None });
        }
        let message = format!("{} is open in this process", path.display());
        Err(StoreError::new(StoreErrorKind::InUse, message))
    }

    /// A lock is a descriptor's.
    #[cfg(not(unix))]
    fn of(_: &Path) -> Result<Claim, StoreError> {
        Ok(Claim { lock: None })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // First, because closing it would release the locks of who claims the file next.
        if let Some(file) = self.lock.take() {
            // A child that another thread has just forked has the descriptor, too, until it runs
            // its program. Closing it there unlocks it as well.
            let _ = file.unlock();
        }
        #[cfg(unix)]
        CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.file);
    }
}

fn open(path: &Path, writes: bool) -> Result<File, StoreError> {
    let opened = OpenOptions::new().read(true).write(writes).open(path);
    opened.map_err(|error| cannot_be_opened(path, error))
}

fn lock(path: &Path, file: &File) -> Result<(), StoreError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            let message = format!("another process has {} open, and writes", path.display());
            StoreError::new(StoreErrorKind::InUse, message)
        }
        TryLockError::Error(error) => {
            StoreError::io(format!("{} cannot be locked", path.display()), error)
        }
    })
}

/// Whether there is no file, and nothing that is left of one.
pub(super) fn is_missing(path: &Path) -> Result<bool, StoreError> {
    match fs::metadata(path) {
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot_be_opened(path, error)),
    }
    // The log of a file that is gone would be taken for one of the new file.
    match fs::metadata(log_of(path)) {
        Ok(found) if found.len() > 0 => {
            let message = format!("{} is gone, and its log is not", path.display());
            Err(StoreError::new(StoreErrorKind::Corrupt, message))
        }
        _ => Ok(true),
    }
}

/// Looks at the file before SQLite does, which would repair or begin anew what is damaged.
fn look(path: &Path, file: &mut File) -> Result<(), StoreError> {
    let failed = |error| cannot_be_opened(path, error);
    let mut head = [0; 100];
    match file.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let message = format!("{} was cut off", path.display());
            return Err(StoreError::new(StoreErrorKind::Corrupt, message));
        }
        Err(error) => return Err(failed(error)),
    }
    if &head[..16] != MAGIC {
        let message = format!("{} is no database of SQLite's", path.display());
        return Err(StoreError::new(StoreErrorKind::Corrupt, message));
    }
    // A log that is left over after a crash may have the pages that the file lacks.
    let has_log = fs::metadata(log_of(path)).is_ok_and(|log| log.len() > 0);
    let length = file.metadata().map_err(failed)?.len();
    if !has_log && length < length_of(&head) {
        let message = format!("{} was cut off: it has {length} bytes", path.display());
        return Err(StoreError::new(StoreErrorKind::Corrupt, message));
    }
    Ok(())
}

fn log_of(path: &Path) -> PathBuf {
    with(path, "-wal")
}

/// Whether somebody has the file open, or had it when it was killed: the index of its log is there.
pub(super) fn is_open(path: &Path) -> bool {
    with(path, "-shm").exists()
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// How long the file is by its first page: the size of a page times their number.
fn length_of(head: &[u8; 100]) -> u64 {
    let page = match u64::from(u16::from_be_bytes([head[16], head[17]])) {
        1 => 65_536,
        page => page,
    };
    page * u64::from(u32::from_be_bytes([head[28], head[29], head[30], head[31]]))
}

fn cannot_be_opened(path: &Path, error: io::Error) -> StoreError {
    StoreError::io(format!("{} cannot be opened", path.display()), error)
}
