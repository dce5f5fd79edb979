//! What several files of tests use.

#[cfg(unix)]
pub(crate) mod disk;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) mod eio;
#[cfg(unix)]
pub(crate) mod faketime;
pub(crate) mod fixture;
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) mod history;
#[cfg(feature = "postgres")]
pub(crate) mod initdb;
pub(crate) mod limit;
#[cfg(feature = "nats")]
pub(crate) mod nats;
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod scale;
pub(crate) mod service;
pub(crate) mod until;

use std::path::Path;
use std::process::Command;

use tickless_durable::{RedbStore, Store, StoreError};

/// Opens the store at a path.
pub(crate) type Open = fn(&Path) -> Result<Box<dyn Store>, StoreError>;

/// The embedded stores that this build has, by their names.
pub(crate) fn stores() -> Vec<(&'static str, Open)> {
    vec![
        ("redb", |path| Ok(Box::new(RedbStore::open(path)?))),
        #[cfg(feature = "sqlite")]
        ("sqlite", |path| Ok(Box::new(tickless_durable::SqliteStore::open(path)?))),
    ]
}

/// The store with that name.
#[cfg_attr(not(unix), expect(dead_code, reason = "children need signals"))]
pub(crate) fn store(name: &str) -> Open {
    let found = stores().into_iter().find(|(other, _)| *other == name);
    found.expect("it is one of the stores").1
}

/// This program again, to run one of its tests as another process. That test does nothing unless
/// it finds the variable `DURABLE_CHILD`.
pub(crate) fn child(test: &str, role: &str) -> Command {
    child_of(&std::env::current_exe().expect("this program has a path"), test, role)
}

/// The same with a program that may be one of another version.
pub(crate) fn child_of(program: &Path, test: &str, role: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("DURABLE_CHILD", role);
    command
}

/// What this process is a child for, if it is one.
pub(crate) fn role() -> Option<String> {
    std::env::var("DURABLE_CHILD").ok()
}
