//! The documents at the root, and the files that prose names.

use std::fs;

use super::source::{Source, numbered, root};

/// Documents that there have to be.
const DOCUMENTS: [&str; 8] = [
    "ARCHITECTURE.md",
    "tests/README.md",
    "README.md",
    "CHANGELOG.md",
    "PERF.md",
    "SECURITY.md",
    "benches/RESULTS.md",
    "wheel/README.md",
];

/// A document of the root; empty where it is missing.
pub(crate) fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_default()
}

/// Documents that are missing or empty.
pub(crate) fn bad_documents() -> Vec<String> {
    let is_missing = |name: &&str| document(name).is_empty();
    let complaint = |name| format!("{name}:1: the document is missing");
    DOCUMENTS.into_iter().filter(is_missing).map(complaint).collect()
}

/// Lines of documents that begin with the mark of a figure. Markdown takes such a mark for a block
/// of HTML, which ends the paragraph.
pub(crate) fn split_paragraphs() -> Vec<String> {
    DOCUMENTS.into_iter().flat_map(|name| marks_that_split(name, &document(name))).collect()
}

fn marks_that_split(name: &str, text: &str) -> Vec<String> {
    let lines = numbered(text).filter(|(_, line)| line.trim_start().starts_with("<!-- = "));
    lines.map(|(line, _)| format!("{name}:{line}: a mark at the beginning of a line")).collect()
}

/// Files named in headers and documents that do not exist.
pub(crate) fn broken_references(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in files {
        for (line, name) in missing(&source.comments) {
            complaints.push(source.complaint(line, &format!("there is no `{name}`")));
        }
    }
    for name in DOCUMENTS {
        for (line, file) in missing(&document(name)) {
            complaints.push(format!("{name}:{line}: there is no `{file}`"));
        }
    }
    complaints
}

/// Rust files of the repository's folders that `text` names between backticks.
fn missing(text: &str) -> Vec<(usize, String)> {
    let mut missing = Vec::new();
    for (line, text) in numbered(text) {
        let quoted = text.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| is_file_name(name)).flat_map(alternatives) {
            let places = [root().join(&name), root().join("src").join(&name)];
            if !places.iter().any(|place| place.exists()) {
                missing.push((line, name));
            }
        }
    }
    missing
}

/// Folders of tests: each with its crate's manifest, and the programs there that have modules.
const TESTED: [(&str, &str, &[&str]); 7] = [
    ("tests", "Cargo.toml", &["suite", "oracles", "alloc"]),
    ("tests/races", "tests/races/Cargo.toml", &["main"]),
    ("tests/realtime", "Cargo.toml", &["main"]),
    ("tests/clients", "tests/clients/Cargo.toml", &["main"]),
    ("wheel/tests", "wheel/Cargo.toml", &["wheels", "oracles"]),
    ("demo/tests", "demo/Cargo.toml", &[]),
    ("loom-tests/tests", "loom-tests/Cargo.toml", &["all"]),
];

/// Files of tests that nobody runs: no program by `Cargo.toml`, and no module of a shared one.
pub(crate) fn forgotten_tests() -> Vec<String> {
    let mut complaints = Vec::new();
    for (folder, manifest, programs) in TESTED {
        let files = fs::read_dir(root().join(folder)).expect("the tests are there");
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        let names: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned)).collect();
        let shared: String =
            programs.iter().map(|name| document(&format!("{folder}/{name}.rs"))).collect();
        complaints.extend(forgotten(folder, &names, &document(manifest), &shared));
    }
    complaints
}

fn forgotten(folder: &str, names: &[String], manifest: &str, shared: &str) -> Vec<String> {
    // A path stands before what is only shared: another file.
    let is_module = |name: &str| {
        let lines = shared.lines().zip(shared.lines().skip(1));
        let mut modules = lines.filter(|(before, _)| !before.starts_with("#[path"));
        modules.any(|(_, line)| line == format!("mod {name};"))
    };
    let runs = |name: &&String| {
        let entry = format!("[[test]]\nname = \"{name}\"\n");
        let rest = manifest.split_once(&entry).map(|(_, rest)| rest);
        // Some are built only when they are named.
        let is_program = rest.is_some_and(|rest| !rest.starts_with("test = false\n"));
        // The main file of a folder, which has the program's name.
        let program = folder.rsplit_once('/').map_or(folder, |(_, name)| name);
        let is_main = *name == "main" && manifest.contains(&format!("name = \"{program}\""));
        is_program || is_main || is_module(name)
    };
    let not_run = names.iter().filter(|name| !runs(name));
    not_run.map(|name| format!("{folder}/{name}.rs:1: nobody runs it")).collect()
}

fn is_file_name(name: &str) -> bool {
    let is_script = name.starts_with("ci/") || name.starts_with("proofs/");
    let is_named = name.ends_with(".rs") || is_script && name.ends_with(".sh");
    is_named && name.contains('/') && !name.contains([' ', '*', '<', '('])
}

/// A pair of braces with a comma in it names two files.
fn alternatives(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![name.to_owned()] };
    inside.split(',').map(|part| format!("{before}{part}{after}")).collect()
}

#[test]
fn a_mark_that_splits_a_paragraph_is_found() {
    let text =
        "It takes <!-- = cpu a -->1<!-- end --> ns,\n  <!-- = cpu b -->2<!-- end --> at most.";
    assert_eq!(marks_that_split("x.md", text), ["x.md:2: a mark at the beginning of a line"]);
}

#[test]
fn a_file_that_is_not_there_is_found() {
    let text = "see `src/lib.rs`, `entry/{word,nowhere}.rs`,\n`tests/nothing.rs` and `a.rs`";
    let expected = [(1, "entry/nowhere.rs".to_owned()), (2, "tests/nothing.rs".to_owned())];
    assert_eq!(missing(text), expected);
}

#[test]
fn a_test_that_nobody_runs_is_found() {
    let names = ["alone", "shared", "named", "lost", "helper"].map(str::to_owned);
    let manifest = "[[test]]\nname = \"alone\"\n\n[[test]]\nname = \"named\"\ntest = false\n";
    let shared =
        "\n#[path = \"common/helper.rs\"]\nmod helper;\n\nmod shared;\nmod lost_and_found;\n";
    let expected = ["named", "lost", "helper"];
    let expected = expected.map(|name| format!("tests/{name}.rs:1: nobody runs it"));
    assert_eq!(forgotten("tests", &names, manifest, shared), expected);
}
