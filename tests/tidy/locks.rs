//! Locks: each says which parties hold it and wait for it. Nobody who acts waits for a thread that
//! only looks.
//!
//! Above a lock's declaration stands a note, `// LOCK(NAME): party: function, function; party: ..`.
//! The functions are those that take the lock, in the file of the lock or as `file.rs::function`.
//! A function may have several parties. Where a lock is taken is read from the sources: each place
//! belongs to a function of a note. ARCHITECTURE.md has a table of what the notes say.

use std::collections::BTreeSet;

use crate::source::{Source, is_primitive, line_of, numbered};

/// Who takes locks, in the order of the table.
///
/// - engine: a thread of an engine, outside of tasks
/// - stopper: a stop of an engine
/// - worker: a worker of a pool, or the thread of a module
/// - caller: a call that is to change something, or to find what the user names; in a task as well
/// - observer: one that reads what others do
/// - test: tests, and hidden checks for them
/// - through: the lock is taken for whichever function calls this
const PARTIES: [&str; 7] = ["engine", "stopper", "worker", "caller", "observer", "test", "through"];

/// Those that act, whom no observer may hold up.
const ACTING: [&str; 3] = ["engine", "stopper", "worker"];

/// What only tests and models use.
const LEFT_OUT: &str = "crates/core/src/bench.rs";

const NAMES: [&str; 3] = ["Mutex<", "QuietMutex<", "RwLock<"];

/// A lock, as its note describes it.
struct Lock {
    name: String,
    path: String,
    line: usize,
    /// Parties, and the functions in which they take it.
    takes: Vec<(String, String)>,
}

/// A place where a lock is taken.
struct Site {
    path: String,
    line: usize,
    function: String,
    /// It is only tried.
    tries: bool,
}

/// Offences of the sources and of the table in ARCHITECTURE.md.
pub(crate) fn unclear_locks(files: &[Source], architecture: &str) -> Vec<String> {
    let is_judged = |source: &&Source| {
        let path = &source.path;
        !is_primitive(path) && path != LEFT_OUT && !path.ends_with("tests.rs")
    };
    let files: Vec<&Source> = files.iter().filter(is_judged).collect();
    let mut complaints = Vec::new();
    let locks: Vec<Lock> =
        files.iter().flat_map(|source| locks_of(source, &mut complaints)).collect();
    let sites: Vec<Site> = files.iter().flat_map(|source| sites_of(source)).collect();
    for site in &sites {
        if !locks.iter().any(|lock| lock.takes.iter().any(|(_, f)| site.is_in(&lock.path, f))) {
            let Site { path, line, function, .. } = site;
            complaints.push(format!("{path}:{line}: no note of a lock has `{function}`"));
        }
    }
    let mut rows = BTreeSet::new();
    for lock in &locks {
        complaints.extend(lock.offences(&sites));
        rows.insert(lock.row(&sites));
    }
    complaints.extend(table_offences(&rows, architecture));
    complaints
}

fn locks_of(source: &Source, complaints: &mut Vec<String>) -> Vec<Lock> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut locks = Vec::new();
    for (line, code) in numbered(&source.product) {
        if !is_declaration(code) {
            continue;
        }
        let above = lines[..line - 1].iter().rev().map(|line| line.trim());
        let mut note: Vec<&str> = above.take_while(|line| line.starts_with("//")).collect();
        note.reverse();
        let begin = note.iter().position(|line| line.starts_with("// LOCK("));
        let Some(begin) = begin else {
            complaints.push(source.complaint(line, "a lock without a note of who takes it"));
            continue;
        };
        let rest = note[begin..].iter().map(|line| line.trim_start_matches('/').trim());
        let text = rest.collect::<Vec<_>>().join(" ");
        let parsed = text.strip_prefix("LOCK(").and_then(|text| text.split_once("): "));
        let Some((name, parties)) = parsed else {
            complaints.push(source.complaint(line, "`// LOCK(NAME): party: function, ..; ..`"));
            continue;
        };
        let takes = parties.trim_end_matches('.').split(';').flat_map(|part| {
            let (party, functions) = part.split_once(": ").unwrap_or((part, ""));
            functions.split(',').map(move |f| (party.trim().to_owned(), f.trim().to_owned()))
        });
        let (name, path) = (name.to_owned(), source.path.clone());
        locks.push(Lock { name, path, line, takes: takes.collect() });
    }
    locks
}

/// Whether a line declares a field, a static or an alias that is a lock.
fn is_declaration(code: &str) -> bool {
    let code = code.trim();
    let code = code.strip_prefix("pub(super) ").or(code.strip_prefix("pub ")).unwrap_or(code);
    let code = code.strip_prefix("static ").unwrap_or(code);
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let kind = match code.split_once(": ") {
        Some((name, kind)) if is_name(name) => kind,
        _ => code.strip_prefix("type ").unwrap_or_default(),
    };
    let is_argument = kind.contains('&') && !kind.contains("&'static");
    !is_argument && NAMES.iter().any(|lock| kind.contains(lock))
}

fn sites_of(source: &Source) -> Vec<Site> {
    let code = &source.product;
    let mut sites = Vec::new();
    for (at, call) in code.match_indices("lock(") {
        let tries = code[..at].ends_with(".try_");
        if !tries && !code[..at].ends_with('.') {
            continue;
        }
        debug_assert_eq!(call, "lock(");
        let function = code[..at].rmatch_indices("fn ").find_map(|(at, _)| {
            let name = code[at + 3..].split(['(', '<']).next()?;
            (!name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_'))
                .then(|| name.to_owned())
        });
        let (path, line) = (source.path.clone(), line_of(code, at));
        sites.push(Site { path, line, function: function.unwrap_or_default(), tries });
    }
    sites
}

// === impl Lock ===

impl Lock {
    fn offences(&self, sites: &[Site]) -> Vec<String> {
        let Lock { name, path, line, takes } = self;
        let mut offences = Vec::new();
        for (party, function) in takes {
            if !PARTIES.contains(&party.as_str()) {
                offences.push(format!("{path}:{line}: {name}: `{party}` is no party"));
            }
            if !sites.iter().any(|site| site.is_in(path, function)) {
                offences.push(format!("{path}:{line}: {name}: `{function}` takes no lock"));
            }
        }
        let waits = self.parties(sites, false);
        let is_held = takes.iter().any(|(party, _)| party == "observer");
        for party in ACTING.iter().filter(|party| is_held && waits.contains(party)) {
            let message = format!("{name}: {party} waits for a lock that an observer holds");
            offences.push(format!("{path}:{line}: {message}"));
        }
        offences
    }

    /// Those that wait for the lock, or those that only try it.
    fn parties(&self, sites: &[Site], only_try: bool) -> Vec<&'static str> {
        let waits = |party: &str| {
            let mut functions = self.takes.iter().filter(|(it, _)| it == party);
            functions
                .any(|(_, f)| sites.iter().any(|site| site.is_in(&self.path, f) && !site.tries))
        };
        let takes = |party: &str| self.takes.iter().any(|(it, _)| it == party);
        let shown = PARTIES.into_iter().filter(|party| *party != "through");
        shown.filter(|party| takes(party) && waits(party) != only_try).collect()
    }

    /// How its row in the table begins.
    fn row(&self, sites: &[Site]) -> String {
        let [waits, tries] = [false, true].map(|only_try| self.parties(sites, only_try).join(", "));
        format!("| {} | `{}` | {waits} | {tries} |", self.name, self.path)
    }
}

impl Site {
    /// Whether this is in a function of that name, as a note in the file `path` has it.
    fn is_in(&self, path: &str, function: &str) -> bool {
        match function.split_once("::") {
            Some((file, function)) => self.path.ends_with(file) && self.function == function,
            None => self.path == path && self.function == function,
        }
    }
}

/// Rows that ARCHITECTURE.md lacks, or has for no lock.
fn table_offences(rows: &BTreeSet<String>, architecture: &str) -> Vec<String> {
    let in_section = architecture.split("\n## Locks").nth(1).unwrap_or_default();
    let section = in_section.split("\n## ").next().unwrap_or_default();
    let is_row = |line: &&str| line.starts_with("| ") && line.contains(".rs` |");
    let there: Vec<&str> = section.lines().filter(is_row).collect();
    let begins = |line: &str, row: &str| {
        line.replace("|  |", "| |").starts_with(&row.replace("|  |", "| |"))
    };
    let missing = rows.iter().filter(|row| !there.iter().any(|line| begins(line, row)));
    let missing = missing.map(|row| format!("ARCHITECTURE.md:1: no row of a lock begins: {row}"));
    let strange = there.iter().filter(|line| !rows.iter().any(|row| begins(line, row)));
    missing
        .chain(strange.map(|line| format!("ARCHITECTURE.md:1: no lock has the row: {line}")))
        .collect()
}

#[test]
fn a_lock_that_holds_up_who_acts_is_found() {
    let offences = |note: &str, code: &str, row: &str| {
        let text = format!("struct A {{\n    {note}\n    a: Mutex<u8>,\n}}\n{code}");
        let architecture = format!("\n## Locks\n{row}\n## Next");
        unclear_locks(&[Source::new("src/a.rs", &text)], &architecture).len()
    };
    let (turns, looks) =
        ("fn turn(&self) { self.a.lock(); }\n", "fn stats(&self) { self.a.lock(); }\n");
    let note = "// LOCK(A): engine: turn.";
    assert_eq!(offences(note, turns, "| A | `src/a.rs` | engine | | turns |"), 0);
    assert_eq!(offences(note, turns, "| A | `src/a.rs` | caller | | turns |"), 2, "another row");
    assert_eq!(offences("/// No note.", turns, ""), 2, "and nothing has the place");
    let row = "| A | `src/a.rs` | engine, observer | | turns |";
    let both = format!("{turns}{looks}");
    assert_eq!(offences("// LOCK(A): engine: turn; observer: stats.", &both, row), 1);
    let row = "| A | `src/a.rs` | engine | | turns |";
    assert_eq!(offences(note, &both, row), 1, "a place without a party");
    let tried = both.replace("stats(&self) { self.a.lock", "stats(&self) { self.a.try_lock");
    let row = "| A | `src/a.rs` | engine | observer | turns |";
    assert_eq!(offences("// LOCK(A): engine: turn; observer: stats.", &tried, row), 1);
    let tried = both.replace("turn(&self) { self.a.lock", "turn(&self) { self.a.try_lock");
    let row = "| A | `src/a.rs` | observer | engine | turns |";
    assert_eq!(offences("// LOCK(A): engine: turn; observer: stats.", &tried, row), 0);
    assert_eq!(
        offences("// LOCK(A): engine: turn, gone.", turns, "| A | `src/a.rs` | engine | | |"),
        1
    );
}
