//! The page for auditors, `docs/unsafe.md`: a row per room, with as many unsafe blocks as it has.

use std::collections::BTreeMap;

use super::source::Source;

/// Crates that are a room each, by folder and name; the rooms of the engine are its folders.
const WHOLE: [(&str, &str); 3] =
    [("wheel", "tickless-wheel"), ("capi", "tickless-c"), ("netty", "tickless-netty")];

/// Rows that are missing, count wrongly, or name a room without unsafe blocks.
pub(crate) fn uncounted_unsafe(files: &[Source], page: &str) -> Vec<String> {
    let counts = counts(files);
    let rows: BTreeMap<&str, usize> = page.lines().filter_map(row).collect();
    let names = counts.keys().chain(rows.keys());
    let mut complaints: Vec<String> = names
        .filter_map(|name| {
            let (is, said) = (counts.get(name).unwrap_or(&0), rows.get(name).unwrap_or(&0));
            let message = format!("docs/unsafe.md: `{name}` has {is} unsafe blocks, not {said}");
            (is != said).then_some(message)
        })
        .collect();
    complaints.sort();
    complaints.dedup();
    complaints
}

/// Unsafe blocks of the library's rooms, without those of tests.
fn counts(files: &[Source]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for source in files.iter().filter(|source| !source.path.contains("tests")) {
        let Some(room) = room(&source.path) else { continue };
        let blocks = source.product.match_indices("unsafe {").count();
        if blocks > 0 {
            *counts.entry(room).or_default() += blocks;
        }
    }
    counts
}

/// The room of a file of the library: its folder in `src` or `core/src`, or its crate.
fn room(path: &str) -> Option<&str> {
    let (krate, inside) = path.split_once("src/")?;
    let krate = krate.strip_suffix('/').unwrap_or(krate);
    match krate {
        "" | "core" => inside.split(['/', '.']).next(),
        folder => WHOLE.iter().find(|(whole, _)| *whole == folder).map(|(_, name)| *name),
    }
}

/// A row of the table: the room between backticks, and the number of its blocks.
fn row(line: &str) -> Option<(&str, usize)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let name = cells.next()?.strip_suffix('`')?;
    Some((name, cells.next()?.parse().ok()?))
}

#[test]
fn a_room_that_is_missing_or_counts_wrongly_is_found() {
    let files = [
        Source::new("src/entry/a.rs", "fn a() { unsafe { b() } }\n// unsafe {\n"),
        Source::new("core/src/entry/tests.rs", "fn a() { unsafe { b() } }\n"),
        Source::new("core/src/entry/c.rs", "fn a() { unsafe { b() } }\n"),
        Source::new("netty/src/timer.rs", "fn a() { unsafe { b() } }\n"),
        Source::new("capi/src/a.rs", "fn a() { unsafe { b() } unsafe { c() } }\n"),
        Source::new("benches/rivals/src/a.rs", "fn a() { unsafe { b() } }\n"),
    ];
    let page = "| room | blocks |\n|---|---|\n| `entry` | 2 | x |\n| `tickless-netty` | 3 | x |\n\
                | `wheel` | 1 | x |\n";
    let expected = [
        "docs/unsafe.md: `tickless-c` has 2 unsafe blocks, not 0",
        "docs/unsafe.md: `tickless-netty` has 1 unsafe blocks, not 3",
        "docs/unsafe.md: `wheel` has 0 unsafe blocks, not 1",
    ];
    assert_eq!(uncounted_unsafe(&files, page), expected);
}
