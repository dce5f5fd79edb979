//! The page for auditors, `docs/unsafe.md`: a row per room, with as many unsafe blocks as it has;
//! and its promise for safe calls.

use std::collections::BTreeMap;

use super::source::{Source, has_word, line_of};

/// Crates that are a room each, by folder and name; the rooms of the engine are its folders.
const WHOLE: [(&str, &str); 6] = [
    ("crates/wheel", "tickless-wheel"),
    ("crates/capi", "tickless-c"),
    ("crates/netty", "tickless-netty"),
    ("crates/keyed", "tickless-keyed"),
    ("crates/sync", "tickless-sync"),
    ("crates/purgatory", "tickless-purgatory"),
];

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

/// The room of a file of the library: its folder in `src` or `crates/core/src`, or its crate.
fn room(path: &str) -> Option<&str> {
    let (krate, inside) = path.split_once("src/")?;
    let krate = krate.strip_suffix('/').unwrap_or(krate);
    match krate {
        "" | "crates/core" => inside.split(['/', '.']).next(),
        folder => WHOLE.iter().find(|(whole, _)| *whole == folder).map(|(_, name)| *name),
    }
}

/// Whether a file is of a crate whose safe interface is the boundary. (That of C is `tickless.h`.)
pub(crate) fn promises_safety(path: &str) -> bool {
    room(path).is_some_and(|room| room != "tickless-c")
}

/// A row of the table: the room between backticks, and the number of its blocks.
fn row(line: &str) -> Option<(&str, usize)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let name = cells.next()?.strip_suffix('`')?;
    Some((name, cells.next()?.parse().ok()?))
}

/// Raw pointers that safe code may pass to safe public functions, or put into public fields. (What
/// a safe function hands out, as its result or to a closure, is used in unsafe code only.)
pub(crate) fn taken_pointers(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in files {
        let code = &source.product;
        for (at, _) in code.match_indices("pub ") {
            let item = code[at + 4..].trim_start_matches("const ");
            let taken = match item.strip_prefix("fn ") {
                Some(function) => parameters(function),
                None => field(item).unwrap_or_default().to_owned(),
            };
            if is_pointer(&taken) {
                let message = "safe code may pass a raw pointer here";
                complaints.push(source.complaint(line_of(code, at), message));
            }
        }
    }
    complaints
}

fn is_pointer(code: &str) -> bool {
    code.contains("*mut ") || code.contains("*const ") || has_word(code, "NonNull")
}

/// The parameters of a function, without what closures are called with.
fn parameters(function: &str) -> String {
    let mut depths = (0, 0);
    let mut taken = String::new();
    let mut handed_out = None;
    for (at, c) in function.char_indices() {
        match c {
            // (An arrow is no bracket.)
            '<' => depths.0 += 1,
            '>' if !function[..at].ends_with('-') => depths.0 -= 1,
            '(' => {
                let is_call = ["Fn", "FnMut", "FnOnce"].iter().any(|f| function[..at].ends_with(f));
                if is_call && handed_out.is_none() {
                    handed_out = Some(depths.1);
                }
                depths.1 += 1;
            }
            ')' => {
                depths.1 -= 1;
                if handed_out == Some(depths.1) {
                    handed_out = None;
                }
                if depths == (0, 0) {
                    break;
                }
            }
            '{' | ';' => break,
            _ => {}
        }
        if handed_out.is_none() {
            taken.push(c);
        }
    }
    taken
}

/// The type of a field.
fn field(item: &str) -> Option<&str> {
    let line = item.lines().next()?;
    if is_pointer(line.split([',', ')']).next()?) && line.starts_with(char::is_uppercase) {
        return Some(line);
    }
    let (name, of) = line.split_once(": ")?;
    name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(of)
}

#[test]
fn a_room_that_is_missing_or_counts_wrongly_is_found() {
    let files = [
        Source::new("src/entry/a.rs", "fn a() { unsafe { b() } }\n// unsafe {\n"),
        Source::new("crates/core/src/entry/tests.rs", "fn a() { unsafe { b() } }\n"),
        Source::new("crates/core/src/entry/c.rs", "fn a() { unsafe { b() } }\n"),
        Source::new("crates/netty/src/timer.rs", "fn a() { unsafe { b() } }\n"),
        Source::new("crates/capi/src/a.rs", "fn a() { unsafe { b() } unsafe { c() } }\n"),
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

#[test]
fn a_raw_pointer_that_safe_code_may_pass_is_found() {
    let code = "pub fn a(p: *mut u8) {}\n\
                pub const fn b<T: Fn(u8) -> *const u8>(\n    f: T,\n) {}\n\
                pub struct C(pub NonNull<u8>);\n\
                pub struct D {\n    pub d: Option<NonNull<u8>>,\n    e: *mut u8,\n}\n\
                pub unsafe fn f(p: *mut u8) {}\n\
                pub(crate) fn g(p: *mut u8) {}\n\
                pub fn h(f: impl FnOnce(*mut u8), n: (u8, u8)) -> NonNull<u8> {}\n\
                pub struct I(NonNull<u8>);\n\
                // pub fn j(p: *mut u8) {}\n";
    let found = taken_pointers(&[Source::new("src/a.rs", code)]);
    let lines = [1, 2, 5, 7];
    assert_eq!(
        found,
        lines.map(|line| format!("src/a.rs:{line}: safe code may pass a raw pointer here"))
    );
}
