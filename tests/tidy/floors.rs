//! Who may import whom, and who alone may name what.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::paths;
use super::source::{SYNC, Source, is_primitive};

/// What a module may import from.
enum From {
    /// Every floor below its own.
    Below,
    /// These and nothing else.
    Only(&'static [&'static str]),
}

/// A crate's modules, each with its floor and what it may import.
type House = [(&'static str, u8, From)];

/// Where the files of the core are.
const CORE: &str = "crates/core/src/";

/// The core, which imports nothing of `tickless`: the compiler sees to that. `bench` is for tests:
/// nothing imports it.
const CORE_HOUSE: &House = &[
    ("bench", 5, From::Below),
    ("reaper", 4, From::Below),
    ("producer", 4, From::Below),
    ("shard", 3, From::Below),
    ("inbox", 2, From::Below),
    ("wheel", 2, From::Below),
    ("doorbell", 2, From::Below),
    ("memory", 2, From::Below),
    ("dispatch", 2, From::Below),
    ("entry", 1, From::Below),
    ("time", 0, From::Only(&["sync", "os", "error"])),
    ("error", 0, From::Only(&[])),
    ("os", 0, From::Only(&["sync"])),
    // The crate `tickless-sync`.
    ("sync", 0, From::Only(&[])),
];

/// `tickless`, whose modules also see those of the core, under the names that they have there.
const HOUSE: &House = &[
    ("future", 8, From::Below),
    ("periodic", 8, From::Below),
    ("scope", 8, From::Below),
    ("test", 8, From::Below),
    ("wall", 8, From::Below),
    ("engine", 7, From::Below),
    ("wait", 6, From::Below),
    ("dispatch", 5, From::Below),
    ("error", 5, From::Below),
    ("local", 5, From::Only(&["time"])),
    // Of the crate `tickless-sync`.
    ("protocol", 1, From::Only(&[])),
];

/// Where the files of durable timers are. (Their command line has no floor.)
const DURABLE: &str = "crates/durable/src/";

/// Durable timers, which see nothing of `tickless` that users do not see.
const DURABLE_HOUSE: &House = &[
    ("cluster", 4, From::Below),
    ("conformance", 4, From::Below),
    ("service", 3, From::Below),
    ("store", 2, From::Below),
    ("events", 2, From::Below),
    ("promise", 1, From::Below),
    ("record", 1, From::Below),
    ("error", 0, From::Only(&[])),
    ("foreign", 0, From::Only(&[])),
    ("payload", 0, From::Only(&[])),
    ("position", 0, From::Only(&[])),
];

/// A name that few files may use.
struct Door {
    /// How paths begin that go through the door.
    names: &'static [&'static [&'static str]],
    /// How the paths of the files begin that may.
    rooms: &'static [&'static str],
    message: &'static str,
}

const DOORS: [Door; 5] = [
    Door {
        names: &[
            &["std", "sync"],
            &["std", "thread"],
            &["core", "sync"],
            &["alloc", "sync"],
            &["loom"],
            &["shuttle"],
        ],
        rooms: &[SYNC],
        message: "threads and what they share come through `tickless-sync`",
    },
    Door {
        names: &[&["crossbeam_epoch"]],
        rooms: &["crates/core/src/entry/reclaim.rs"],
        message: "only `entry/reclaim.rs` names the epoch crate",
    },
    Door {
        names: &[&["libc"], &["rustix"]],
        rooms: &["crates/core/src/os/"],
        message: "only `os` talks to the operating system",
    },
    Door {
        names: &[&["tickless_wheel"]],
        rooms: &["crates/core/src/time/", "src/local.rs"],
        message: "ticks and placement come through `crate::time`",
    },
    Door {
        names: &[&["std", "panic", "catch_unwind"], &["panic", "catch_unwind"]],
        rooms: &["crates/core/src/dispatch/panics.rs"],
        message: "panics end in `contained`, or are put off by `Panics`",
    },
];

/// What is hidden of the engine, and the crates below it: for those that users have.
const HIDDEN_DOORS: [Door; 2] = [
    Door {
        names: &[&["tickless", "internal"]],
        rooms: &["crates/keyed/src/", "crates/purgatory/src/"],
        message: "the hidden door of `tickless` is for the crates that were parts of it",
    },
    Door {
        names: &[&["tickless_core"], &["tickless_sync"]],
        rooms: &["src/", "crates/capi/src/bells.rs"],
        message: "users and the crates beside it see what `tickless` re-exports of those below it",
    },
];

/// Where a lock may be named, besides the door to it.
const LOCK_ROOMS: [&str; 15] = [
    SYNC,
    "crates/core/src/bench.rs",
    "crates/core/src/memory/blocks.rs",
    "crates/core/src/shard/mod.rs",
    "crates/core/src/reaper/ending.rs",
    "crates/core/src/reaper/role.rs",
    "crates/core/src/dispatch/in_hand.rs",
    "crates/sync/src/queue.rs",
    "src/engine/core.rs",
    "src/engine/crew.rs",
    "crates/purgatory/src/lists.rs",
    "src/test.rs",
    "crates/keyed/src/table.rs",
    "src/dispatch/pool/",
    "src/wall/",
];

/// Types that make a thread wait for another.
const LOCKS: [&str; 6] = ["Mutex", "QuietMutex", "RwLock", "Condvar", "Barrier", "Once"];

/// Imports that do not go down. Tests may import anything.
pub(crate) fn upward_imports(files: &[Source]) -> Vec<String> {
    let is_judged = |path: &str| !path.ends_with("src/lib.rs") && !path.ends_with("/tests.rs");
    files.iter().filter(|source| is_judged(&source.path)).flat_map(imports_of).collect()
}

fn imports_of(source: &Source) -> Vec<String> {
    let (house, below): (&House, &House) = match &source.path {
        path if path.starts_with(CORE) => (CORE_HOUSE, &[]),
        path if path.starts_with(DURABLE) => (DURABLE_HOUSE, &[]),
        _ => (HOUSE, CORE_HOUSE),
    };
    let room = |name: &str| house.iter().chain(below).find(|(module, ..)| *module == name);
    let place = module_path(&source.path);
    let own = place[0];
    let Some((_, floor, from)) = house.iter().find(|(module, ..)| *module == own) else {
        return vec![source.complaint(1, &format!("the module `{own}` has no floor in the house"))];
    };
    let mut complaints = Vec::new();
    for named in paths(&source.product) {
        let Some(module) = crate_module(&named.parts, place.len()) else { continue };
        let target = room(module);
        let allowed = match (target, from) {
            _ if module == own => true,
            (None, _) => false,
            (Some((_, other, _)), From::Below) => other < floor,
            (Some(_), From::Only(modules)) => modules.contains(&module),
        };
        if !allowed {
            let message = match target {
                Some((_, other, _)) => {
                    format!("`{own}` on floor {floor} imports `{module}` on floor {other}")
                }
                None => format!("`{module}` is no module: name the one that it lives in"),
            };
            complaints.push(source.complaint(named.line, &message));
        }
    }
    complaints
}

/// The module path of a file: `mod.rs` is its folder, any other is one deeper.
fn module_path(path: &str) -> Vec<&str> {
    let path = path.split_once("src/").map_or(path, |(_, path)| path);
    path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect()
}

/// Which module of the crate a path leads to, seen from a module `depth` below the root; `None`:
/// it stays where it is, or leads out of the crate.
fn crate_module(parts: &[String], depth: usize) -> Option<&str> {
    let supers = parts.iter().take_while(|part| *part == "super").count();
    if parts[0] == "crate" {
        parts.get(1).map(String::as_str)
    } else if supers == depth {
        parts.get(supers).map(String::as_str)
    } else {
        None
    }
}

/// Whether a file's crate has floors.
pub(crate) fn has_floors(path: &str) -> bool {
    path.starts_with("src/") || path.starts_with(CORE) || is_durable(path)
}

/// Whether a file is one of durable timers, below the root of their crate.
pub(crate) fn is_durable(path: &str) -> bool {
    let path = path.strip_prefix(DURABLE);
    path.is_some_and(|path| !path.starts_with("bin/") && path != "lib.rs")
}

/// Files of durable timers that import each other, directly or by way of others.
pub(crate) fn circles(files: &[Source]) -> Vec<String> {
    let is_judged =
        |source: &&Source| is_durable(&source.path) && !source.path.ends_with("tests.rs");
    let judged: Vec<&Source> = files.iter().filter(is_judged).collect();
    let places: BTreeMap<Vec<&str>, &Source> =
        judged.iter().map(|source| (module_path(&source.path), *source)).collect();
    let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (place, source) in &places {
        let named = paths(&source.product).into_iter().filter(|named| named.parts.len() > 1);
        let found = named.filter_map(|named| {
            let path = absolute(place, &named.parts);
            let file = (1..=path.len()).rev().find_map(|length| places.get(&path[..length]));
            file.map(|file| file.path.as_str()).filter(|path| *path != source.path)
        });
        imports.insert(&source.path, found.collect());
    }
    // A file is in no circle if nothing that is left imports it, or if it imports nothing of that.
    let mut before = usize::MAX;
    while imports.len() < before {
        before = imports.len();
        let left: BTreeSet<&str> = imports.keys().copied().collect();
        imports.values_mut().for_each(|of| of.retain(|path| left.contains(path)));
        let imported: BTreeSet<&str> = imports.values().flatten().copied().collect();
        imports.retain(|path, of| imported.contains(path) && !of.is_empty());
    }
    let complaint = |(path, of)| format!("{path}: in a circle of imports, with {of:?}");
    imports.into_iter().map(complaint).collect()
}

/// A path as seen from the root of the crate, if the module at `place` names it.
fn absolute<'a>(place: &[&'a str], parts: &'a [String]) -> Vec<&'a str> {
    let supers = parts.iter().take_while(|part| *part == "super").count();
    let (base, rest) = match parts[0].as_str() {
        "crate" => (&place[..0], &parts[1..]),
        "self" => (place, &parts[1..]),
        _ => (&place[..place.len().saturating_sub(supers)], &parts[supers..]),
    };
    base.iter().copied().chain(rest.iter().map(String::as_str)).collect()
}

/// Whether a file is in one of these rooms. (Of `tickless-sync`, that of the primitives.)
fn is_in(path: &str, rooms: &[&str]) -> bool {
    rooms.iter().any(|&room| path.starts_with(room) && (room != SYNC || is_primitive(path)))
}

/// Names that were taken past these doors.
fn forced(source: &Source, doors: &[Door]) -> Vec<String> {
    let may = |rooms: &[&str]| is_in(&source.path, rooms);
    let mut complaints = Vec::new();
    for named in paths(&source.product) {
        // A lone word is a variable, or a `cfg`.
        let through = |door: &Door| {
            named.parts.len() > 1 && door.names.iter().any(|name| begins(&named.parts, name))
        };
        for door in doors.iter().filter(|door| !may(door.rooms) && through(door)) {
            complaints.push(source.complaint(named.line, door.message));
        }
    }
    complaints
}

/// Hidden things that a crate for users, or an example, names without being meant.
pub(crate) fn hidden_doors(files: &[Source]) -> Vec<String> {
    let is_for_users = |path: &str| {
        let inside = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        ["src/", "examples/"].iter().any(|folder| path.starts_with(folder))
            || inside.is_some_and(|(krate, path)| {
                !["core", "sync"].contains(&krate) && path.starts_with("src/")
            })
    };
    let judged = files.iter().filter(|source| is_for_users(&source.path));
    judged.flat_map(|source| forced(source, &HIDDEN_DOORS)).collect()
}

/// Names that were taken past their door, and locks where none belong.
pub(crate) fn forced_doors(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in files {
        complaints.extend(forced(source, &DOORS));
        for named in paths(&source.product) {
            let locks = named.parts.iter().any(|part| LOCKS.contains(&part.as_str()));
            if locks && !is_in(&source.path, &LOCK_ROOMS) {
                let message = "a lock where ARCHITECTURE.md says that there is none";
                complaints.push(source.complaint(named.line, message));
            }
        }
    }
    complaints
}

/// The standard library's locks in tests that ThreadSanitizer watches: it does not see a thread
/// enter one after a wait, and reports a race on all that the lock protects.
pub(crate) fn unseen_locks(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    let folders = ["tests/races/", "crates/netty/tests/", "crates/inspect/tests/"];
    let is_raced = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
    for source in files.iter().filter(|source| is_raced(&source.path)) {
        for named in paths(&source.code) {
            let lock = |name: &&str| begins(&named.parts, &["std", "sync", name]);
            if ["Mutex", "RwLock", "Condvar"].iter().any(lock) {
                let message = "`tickless_sync` has a lock that ThreadSanitizer sees";
                complaints.push(source.complaint(named.line, message));
            }
        }
    }
    complaints
}

fn begins(parts: &[String], prefix: &[&str]) -> bool {
    parts.len() >= prefix.len() && parts.iter().zip(prefix).all(|(part, name)| part == name)
}

#[test]
fn an_import_that_goes_up_or_aside_is_found() {
    let upward = |path: &str, text: &str| upward_imports(&[Source::new(path, text)]).len();
    assert_eq!(upward("crates/core/src/inbox/mod.rs", "use crate::{entry::Entry, sync::Arc};"), 0);
    assert_eq!(
        upward("crates/core/src/inbox/mod.rs", "use crate::{entry::Entry, shard::Shard};"),
        1
    );
    assert_eq!(upward("crates/core/src/inbox/stack.rs", "fn a() { crate::memory::b() }"), 1);
    assert_eq!(upward("crates/core/src/inbox/stack.rs", "use super::super::wheel::Wheel;"), 1);
    assert_eq!(upward("crates/core/src/inbox/mod.rs", "use super::wheel::Wheel;"), 1);
    assert_eq!(upward("crates/core/src/inbox/stack.rs", "use super::lanes::Lanes;"), 0);
    assert_eq!(upward("src/local.rs", "use crate::sync::Arc;"), 1);
    assert_eq!(upward("crates/core/src/os/process.rs", "use crate::time::Tick;"), 1);
    assert_eq!(upward("crates/core/src/shard/mod.rs", "use crate::Tick;"), 1);
    assert_eq!(upward("src/attic/mod.rs", ""), 1);
    assert_eq!(upward("crates/core/src/engine/mod.rs", ""), 1);
    assert_eq!(upward("src/engine/mod.rs", "use crate::{shard::Shard, wait::Waiter};"), 0);
    assert_eq!(upward("src/wait/mod.rs", "use crate::engine::Engine;"), 1);
    assert_eq!(upward("src/scope/mod.rs", "use crate::{dispatch::Task, wall::Wall};"), 1);
    assert_eq!(upward("crates/core/src/inbox/tray/tests.rs", "use crate::shard::Shard;"), 0);
    assert_eq!(upward("crates/core/src/entry/mod.rs", "/// [`crate::shard::Shard`]\nstruct A;"), 0);
}

#[test]
fn a_circle_of_imports_is_found() {
    let circles = |texts: &[(&str, &str)]| {
        let source =
            |(path, text): &(&str, &str)| Source::new(&format!("crates/durable/src/{path}"), text);
        circles(&texts.iter().map(source).collect::<Vec<_>>()).len()
    };
    let (room, leaf) = ("mod leaf;\npub use leaf::Leaf;", "use crate::other::Other;");
    assert_eq!(circles(&[("room/mod.rs", room), ("room/leaf.rs", leaf), ("other.rs", "")]), 0);
    assert_eq!(circles(&[("room/mod.rs", room), ("room/leaf.rs", "use super::Op;")]), 2);
    assert_eq!(circles(&[("room/mod.rs", "mod leaf;"), ("room/leaf.rs", "use super::Op;")]), 0);
    let other = ("other.rs", "fn a() { crate::room::b() }");
    let above = ("above.rs", "use crate::other::Other;");
    assert_eq!(circles(&[("room/mod.rs", room), ("room/leaf.rs", leaf), other, above]), 3);
    assert_eq!(
        circles(&[("a.rs", "#[cfg(test)]\nuse crate::b::B;"), ("b.rs", "use super::a::A;")]),
        0
    );
}

#[test]
fn a_lock_that_is_not_seen_is_found() {
    let unseen = |path: &str, text: &str| unseen_locks(&[Source::new(path, text)]).len();
    assert_eq!(unseen("tests/races/stop.rs", "use std::sync::{Arc, Mutex};"), 1);
    assert_eq!(unseen("tests/races/stop.rs", "fn a() -> std::sync::RwLock<()> {}"), 1);
    assert_eq!(unseen("tests/races/stop.rs", "use std::sync::Arc;\nuse tickless_sync::Mutex;"), 0);
    assert_eq!(unseen("tests/suite/engine/order.rs", "use std::sync::Mutex;"), 0);
}

#[test]
fn a_name_taken_past_its_door_is_found() {
    let forced = |path: &str, text: &str| forced_doors(&[Source::new(path, text)]).len();
    assert_eq!(forced("src/engine/a.rs", "use std::{fmt, thread::JoinHandle};"), 1);
    assert_eq!(forced("src/engine/a.rs", "let a = std::sync::mpsc::channel();"), 1);
    assert_eq!(forced("src/engine/a.rs", "#[cfg(not(loom))]\nuse crate::sync::thread;"), 0);
    assert_eq!(forced("crates/sync/src/std.rs", "pub use std::sync::Mutex;"), 0);
    assert_eq!(forced("crates/sync/src/protocol/gate.rs", "use std::sync::Arc;"), 1);
    assert_eq!(
        forced("crates/core/src/entry/node.rs", "use crossbeam_epoch::{self as epoch, Atomic};"),
        2
    );
    assert_eq!(
        forced("crates/core/src/entry/reclaim.rs", "use crossbeam_epoch::{self as epoch};"),
        0
    );
    assert_eq!(forced("crates/core/src/shard/open.rs", "use crate::sync::Mutex;"), 1);
    assert_eq!(forced("src/engine/a.rs", "unsafe { libc::prctl(1) };"), 1);
    assert_eq!(forced("crates/core/src/shard/a.rs", "use tickless_wheel::Tick;"), 1);
    assert_eq!(
        forced("crates/keyed/src/a.rs", "use std::panic::{AssertUnwindSafe, catch_unwind};"),
        1
    );
    assert_eq!(forced("crates/core/src/dispatch/panics.rs", "use std::panic::catch_unwind;"), 0);
}

#[test]
fn what_is_hidden_and_used_by_others_is_found() {
    let found = |path: &str, text: &str| hidden_doors(&[Source::new(path, text)]).len();
    let (internal, core) = ("use tickless::internal::Panics;", "use tickless_core::os::Process;");
    assert_eq!(found("crates/keyed/src/a.rs", internal), 0);
    assert_eq!(found("crates/netty/src/a.rs", internal), 1);
    assert_eq!(found("examples/a.rs", internal), 1);
    assert_eq!(found("src/engine/a.rs", core), 0);
    assert_eq!(found("crates/keyed/src/a.rs", core), 1);
    assert_eq!(found("tests/races/a.rs", core), 0);
}
