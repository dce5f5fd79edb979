//! A disk that fails: `eio.c`, to be preloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that fails calls.
pub(crate) fn library(directory: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/durable/common/eio.c");
    let built = directory.join("eio.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(source).arg("-ldl");
    assert!(command.status().expect("a compiler of C is there").success());
    built
}
