//! Making a file that is whole from the first moment on.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::StoreError;

/// Has `make` write a file under another name, and then puts it at `path`, where there is nothing.
/// A crash leaves all of it at `path`, or nothing. If another one has put a file there meanwhile,
/// that one stays.
pub(super) fn make_whole(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let unfinished = unfinished(path);
    let failed = |error| StoreError::io(format!("{} cannot be made", path.display()), error);
    // Says what is wrong with the directory, if something is.
    OpenOptions::new().write(true).create_new(true).open(&unfinished).map_err(failed)?;
    let made = make(&unfinished).and_then(|()| place(&unfinished, path).map_err(failed));
    // What is left over takes room and does no harm.
    let _ = fs::remove_file(&unfinished);
    made
}

/// A name that nobody else has who begins at the same time: no other thread, no other process, and
/// no process of another container, which can have the same number.
fn unfinished(path: &Path) -> PathBuf {
    static MADE: AtomicU64 = AtomicU64::new(0);
    // ORDER: Relaxed - a number is all that is wanted.
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{}-{}-{number}", process::id(), since.as_nanos()));
    PathBuf::from(name)
}

fn place(unfinished: &Path, path: &Path) -> io::Result<()> {
    File::open(unfinished)?.sync_all()?;
    // Not a rename, which would put the file in the place of one that was made meanwhile.
    match fs::hard_link(unfinished, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        linked => linked?,
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
