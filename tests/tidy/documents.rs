//! The documents at the root, the files that prose names, and how many inputs are kept.

use std::fs;

use super::source::{Source, numbered, root};

/// Documents that there have to be.
const DOCUMENTS: [&str; 18] = [
    "ARCHITECTURE.md",
    "tests/README.md",
    "README.md",
    "CHANGELOG.md",
    "PERF.md",
    "SECURITY.md",
    "benches/RESULTS.md",
    "crates/core/README.md",
    "crates/core/src/doorbell/README.md",
    "crates/core/src/memory/README.md",
    "crates/core/src/reaper/README.md",
    "crates/core/src/shard/README.md",
    "crates/inspect/README.md",
    "crates/keyed/README.md",
    "crates/netty/README.md",
    "crates/purgatory/README.md",
    "crates/sync/README.md",
    "crates/wheel/README.md",
];

const MAX_INPUTS: usize = 150;

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
        for (line, name) in missing(&source.comments, krate(&source.path)) {
            complaints.push(source.complaint(line, &format!("there is no `{name}`")));
        }
    }
    for name in DOCUMENTS {
        for (line, file) in missing(&document(name), "") {
            complaints.push(format!("{name}:{line}: there is no `{file}`"));
        }
    }
    complaints
}

/// The folder of the crate that a file belongs to, if that lies in `crates`.
fn krate(path: &str) -> &str {
    let inside = path.strip_prefix("crates/").and_then(|path| path.find('/'));
    inside.map_or("", |at| &path["crates/".len()..][..at])
}

/// Rust files that `text` names between backticks, and that are neither in the repository's folders
/// nor in its crate's.
fn missing(text: &str, krate: &str) -> Vec<(usize, String)> {
    let krate = format!("crates/{krate}");
    let mut missing = Vec::new();
    for (line, text) in numbered(text) {
        let quoted = text.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| is_file_name(name)).flat_map(alternatives) {
            let folders = ["", "src", "crates/core/src", "crates/sync/src", &krate];
            let places = folders.map(|folder| root().join(folder).join(&name));
            if !places.iter().any(|place| place.exists()) {
                missing.push((line, name));
            }
        }
    }
    missing
}

/// Folders of tests, and the manifests that name their programs.
const TESTED: [&str; 6] = [
    "tests/",
    "crates/wheel/tests/",
    "crates/demo/tests/",
    "crates/inspect/tests/",
    "crates/netty/tests/",
    "loom-tests/tests/",
];
const MANIFESTS: [&str; 10] = [
    "Cargo.toml",
    "tests/races/Cargo.toml",
    "tests/clients/Cargo.toml",
    "tests/models/Cargo.toml",
    "tests/support/Cargo.toml",
    "crates/wheel/Cargo.toml",
    "crates/demo/Cargo.toml",
    "crates/inspect/Cargo.toml",
    "crates/netty/Cargo.toml",
    "loom-tests/Cargo.toml",
];

/// Programs that a script runs.
const BY_SCRIPT: [&str; 4] = [
    "tests/races/main.rs",
    "tests/realtime/main.rs",
    "crates/netty/tests/wakes.rs",
    "crates/inspect/tests/realtime.rs",
];

/// Files of tests that nobody runs: no program by its manifest, and no module of one.
pub(crate) fn forgotten_tests(files: &[Source]) -> Vec<String> {
    let of_manifest = |name: &&str| programs(name, &document(name));
    let mut roots: Vec<String> = MANIFESTS.iter().flat_map(of_manifest).collect();
    roots.extend(BY_SCRIPT.map(str::to_owned));
    forgotten(files, roots)
}

/// The files that a manifest's library and programs begin with. Some programs are built only when
/// they are named.
fn programs(manifest: &str, text: &str) -> Vec<String> {
    let folder = manifest.strip_suffix("Cargo.toml").expect("a manifest's name");
    let value = |entry: &str, key: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    let path = |block: &str| {
        if block.contains("[lib]\n") {
            return value(block, "path").or_else(|| Some("src/lib.rs".to_owned()));
        }
        let is_built = block.contains("[[test]]\n") && !block.contains("test = false");
        let by_name = || value(block, "name").map(|name| format!("tests/{name}.rs"));
        if is_built { value(block, "path").or_else(by_name) } else { None }
    };
    text.split("\n\n").filter_map(path).map(|path| format!("{folder}{path}")).collect()
}

fn forgotten(files: &[Source], roots: Vec<String>) -> Vec<String> {
    let mut run = roots.clone();
    let mut at = 0;
    while at < run.len() {
        if let Some(source) = files.iter().find(|source| source.path == run[at]) {
            run.extend(modules(source, roots.contains(&source.path)));
        }
        at += 1;
    }
    let is_test = |source: &&Source| TESTED.iter().any(|folder| source.path.starts_with(folder));
    let not_run = files.iter().filter(is_test).filter(|source| !run.contains(&source.path));
    not_run.map(|source| source.complaint(1, "nobody runs it")).collect()
}

/// Where the modules may be that a file declares, in blocks of modules as well.
fn modules(source: &Source, is_root: bool) -> Vec<String> {
    let (folder, name) = source.path.rsplit_once('/').expect("a file in a folder");
    let own = name.trim_end_matches(".rs");
    let mut place = vec![folder];
    if !is_root && own != "mod" {
        place.push(own);
    }
    let (mut found, mut path) = (Vec::new(), None);
    let base = place.len();
    for line in source.text.lines() {
        let code = line.trim_start();
        let depth = base + (line.len() - code.len()) / 4;
        let code = code.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        let module = code.strip_prefix("mod ");
        if let Some(name) = module.and_then(|module| module.strip_suffix(" {")) {
            place.truncate(depth);
            place.push(name);
        } else if let Some(name) = module.and_then(|module| module.strip_suffix(';')) {
            place.truncate(depth);
            let stem = place.join("/");
            match path.take() {
                Some(path) => found.push(format!("{folder}/{path}")),
                None => found.extend(["", "/mod"].map(|end| format!("{stem}/{name}{end}.rs"))),
            }
        } else if let Some(rest) = code.strip_prefix("#[path = \"") {
            path = rest.strip_suffix("\"]");
        }
    }
    found
}

/// The kept inputs of all fuzz targets together, where they are too many.
pub(crate) fn too_many_inputs() -> Vec<String> {
    let files = |folder| fs::read_dir(folder).expect("a folder of inputs can be read");
    let targets = files(root().join("fuzz/corpus"));
    let counts =
        targets.map(|target| files(target.expect("a folder of inputs can be read").path()).count());
    above_most(counts.sum())
}

fn above_most(inputs: usize) -> Vec<String> {
    let message = format!("fuzz/corpus:1: {inputs} inputs, of at most {MAX_INPUTS}");
    if inputs > MAX_INPUTS { vec![message] } else { Vec::new() }
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
    assert_eq!(missing(text, ""), expected);
}

#[test]
fn a_test_that_nobody_runs_is_found() {
    let manifest = "[[test]]\nname = \"alone\"\n\n[[test]]\nname = \"named\"\ntest = false\n\n\
                    [[test]]\nname = \"many\"\npath = \"tests/many/main.rs\"\n\n[lib]\n\
                    bench = false\n";
    let roots = programs("Cargo.toml", manifest);
    assert_eq!(roots, ["tests/alone.rs", "tests/many/main.rs", "src/lib.rs"]);
    let many = "#[path = \"../../tests/helper.rs\"]\nmod helper;\nmod a {\n    mod b;\n}\n\
                mod shared;\nmod lost_and_found;\n";
    let files = [
        ("tests/alone.rs", ""),
        ("tests/named.rs", ""),
        ("tests/many/main.rs", many),
        ("tests/many/a/b.rs", "mod c;\n"),
        ("tests/many/a/b/c.rs", ""),
        ("tests/many/b.rs", ""),
        ("tests/many/shared/mod.rs", "#[path = \"under/another.rs\"]\nmod name;\n"),
        ("tests/many/shared/under/another.rs", ""),
        ("tests/many/lost.rs", ""),
        ("tests/helper.rs", ""),
        ("src/lib.rs", ""),
    ];
    let files = files.map(|(path, text)| Source::new(path, text));
    let expected = ["named", "many/b", "many/lost", "helper"];
    let expected = expected.map(|name| format!("tests/{name}.rs:1: nobody runs it"));
    assert_eq!(forgotten(&files, roots), expected);
}

#[test]
fn too_many_kept_inputs_are_found() {
    assert!(above_most(MAX_INPUTS).is_empty());
    assert_eq!(above_most(MAX_INPUTS + 1), ["fuzz/corpus:1: 151 inputs, of at most 150"]);
}
