//! Looking at a file before SQLite does, which would repair or begin anew what is damaged.
//!
//! *Owner*: any thread that opens a store.
//!
//! *Tested by*: `durable/tests/faults.rs`.

#[cfg(unix)]
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

use crate::error::{StoreError, StoreErrorKind};

/// How a file of SQLite's begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A file that this process has open, or is about to open, for as long as this lives.
///
/// Where SQLite locks a file for a process (`fcntl`), the lock is gone as soon as the process
/// closes any descriptor of that file. So nothing else here may open a file that a store has open,
/// not even in order to see that it is in use.
#[derive(Debug)]
pub(super) struct Claim {
    #[cfg(unix)]
    file: (u64, u64),
}

#[cfg(unix)]
static CLAIMED: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

impl Claim {
    #[cfg(unix)]
    pub(super) fn of(path: &Path) -> Result<Claim, StoreError> {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(path).map_err(|error| cannot_be_opened(path, error))?;
        let file = (found.dev(), found.ino());
        if CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).insert(file) {
            return Ok(Claim { file });
        }
        let message = format!("{} is open in this process", path.display());
        Err(StoreError::new(StoreErrorKind::InUse, message))
    }

    /// A lock is a descriptor's.
    #[cfg(not(unix))]
    pub(super) fn of(_: &Path) -> Result<Claim, StoreError> {
        Ok(Claim {})
    }
}

#[cfg(unix)]
impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.file);
    }
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
pub(super) fn look(path: &Path) -> Result<(), StoreError> {
    let failed = |error| cannot_be_opened(path, error);
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
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
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
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
