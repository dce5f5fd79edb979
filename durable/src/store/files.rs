//! Making a file that is whole from the first moment on.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::error::StoreError;

/// Has `make` write a file under another name, and then puts it at `path`, where there is nothing.
/// A crash leaves all of it at `path`, or nothing.
pub(super) fn make_whole(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut unfinished = path.as_os_str().to_owned();
    // Two processes may begin at the same time.
    unfinished.push(format!(".new-{}", process::id()));
    let unfinished = PathBuf::from(unfinished);
    let failed = |error| StoreError::io(format!("{} cannot be made", path.display()), error);
    // One of a crash before.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // Says what is wrong with the directory, if something is.
    OpenOptions::new().write(true).create_new(true).open(&unfinished).map_err(failed)?;
    let made = make(&unfinished).and_then(|()| place(&unfinished, path).map_err(failed));
    // What is left over takes room and does no harm.
    let _ = fs::remove_file(&unfinished);
    made
}

fn place(unfinished: &Path, path: &Path) -> io::Result<()> {
    File::open(unfinished)?.sync_all()?;
    // Not a rename, which would put the file in the place of one that was made meanwhile.
    fs::hard_link(unfinished, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
