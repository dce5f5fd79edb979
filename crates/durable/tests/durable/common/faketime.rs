//! A process whose wall clock shows another time.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that does it (Debian: libfaketime).
pub(crate) fn library() -> Option<PathBuf> {
    let libraries = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = libraries.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    found.find(|library| library.exists())
}

/// Has the wall clock be off by so many seconds, and no other clock.
pub(crate) fn set(command: &mut Command, library: &Path, seconds: i64) {
    preload(command, library);
    command.env("FAKETIME", format!("{seconds:+}"));
    leave_others(command);
}

/// The same, by as much as the file says at the moment: see [`write`].
#[cfg(feature = "postgres")]
pub(crate) fn follow(command: &mut Command, library: &Path, file: &Path) {
    preload(command, library);
    command.env("FAKETIME_TIMESTAMP_FILE", file).env("FAKETIME_NO_CACHE", "1");
    leave_others(command);
}

/// Puts it into the file at once, since others read meanwhile.
#[cfg(feature = "postgres")]
pub(crate) fn write(file: &Path, seconds: i64) {
    let next = file.with_extension("next");
    fs::write(&next, format!("{seconds:+}\n")).unwrap();
    fs::rename(next, file).unwrap();
}

/// Adds a library to those that are preloaded.
pub(crate) fn preload(command: &mut Command, library: &Path) {
    let before = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
    let mut all = before.and_then(|(_, value)| value).map_or_else(OsString::new, Into::into);
    if !all.is_empty() {
        all.push(":");
    }
    all.push(library);
    command.env("LD_PRELOAD", all);
}

fn leave_others(command: &mut Command) {
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
}
