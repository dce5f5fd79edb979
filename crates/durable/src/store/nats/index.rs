//! What a shard's log says, as a list that can be read by time: a file of redb's that is thrown
//! away.
//!
//! It is made anew by each opening of the log, is never synced, and has no name as long as it is
//! open, where the system permits that. So memory does not grow with the number of timers.
//!
//! *Tested by*: the conformance suite in `tests/durable/nats/`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::StorageBackend;
use redb::backends::FileBackend;

use crate::error::{StoreError, StoreErrorKind};
use crate::store::redb::{RedbOptions, RedbStore};

/// Bytes of an index that are kept in memory.
const CACHE: usize = 16 << 20;

/// Makes an empty index in a directory.
pub(super) fn make(directory: &Path) -> Result<RedbStore, StoreError> {
    let io = |error| {
        let message = format!("no index can be made in {}", directory.display());
        StoreError::io(message, error)
    };
    let (file, path) = create(directory).map_err(io)?;
    // Where an open file keeps its name, it loses it when it is closed.
    let path = fs::remove_file(&path).is_err().then_some(path);
    let file = FileBackend::new(file).map_err(|error| {
        StoreError::caused(StoreErrorKind::Io, "an index cannot be begun", error)
    })?;
    RedbOptions::new()
        .cache_bytes(CACHE)
        .check(false)
        .open_backend(Unsynced { file, _path: Named(path) })
}

/// A file with a name that nobody else has.
fn create(directory: &Path) -> io::Result<(File, PathBuf)> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    loop {
        // ORDER: Relaxed - a number is all that is wanted.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("tickless-{}-{number}.index", process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            // A process that has died had this number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// A file that is not synced.
#[derive(Debug)]
struct Unsynced {
    file: FileBackend,
    /// Dropped after the file.
    _path: Named,
}

#[derive(Debug)]
struct Named(Option<PathBuf>);

impl Drop for Named {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It is only in the way.
            let _ = fs::remove_file(path);
        }
    }
}

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
