//! The source tree as the rules read it: each file's code without its comments and literals, and
//! its comments without its code, line by line as they stand.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// One Rust file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// From the root of the repository, with forward slashes.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// Comments and the contents of strings and characters are blank.
    pub(crate) code: String,
    /// `code` with modules that exist only in tests blank as well.
    pub(crate) product: String,
    /// Everything but comments is blank.
    pub(crate) comments: String,
}

/// Folders with Rust files of ours.
const FOLDERS: [&str; 8] =
    ["src", "tests", "benches", "ci", "crates", "examples", "fuzz", "loom-tests"];

/// Folders that tools fill.
const NOT_OURS: [&str; 3] = ["target", "corpus", "artifacts"];

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the repository, in order of path.
pub(crate) fn tree() -> &'static [Source] {
    static TREE: LazyLock<Vec<Source>> = LazyLock::new(read_all);
    &TREE
}

fn read_all() -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in FOLDERS.map(|folder| root().join(folder)) {
        if folder.exists() {
            collect(&folder, &mut paths);
        }
    }
    paths.sort();
    assert!(paths.len() > 50, "the tree was not found: {paths:?}");
    paths.iter().map(|path| read(path)).collect()
}

/// Where the files of the engine are: of the crate itself, those below it, and those that use its
/// hidden door.
const PRODUCT: [&str; 5] =
    ["src/", "crates/core/src/", "crates/sync/src/", "crates/keyed/src/", "crates/purgatory/src/"];

/// The files of the engine.
pub(crate) fn crate_files() -> Vec<Source> {
    tree().iter().filter(|source| is_product(&source.path)).cloned().collect()
}

/// Whether a file is a part of the engine.
pub(crate) fn is_product(path: &str) -> bool {
    PRODUCT.iter().any(|folder| path.starts_with(folder))
}

/// The crate of what threads share.
pub(crate) const SYNC: &str = "crates/sync/src/";

/// Whether a file is one of the primitives that `tickless-sync` puts in the place of the standard
/// library's. The words and the queue beside them are made of these, as all other files are.
pub(crate) fn is_primitive(path: &str) -> bool {
    let inside = path.strip_prefix(SYNC);
    inside.is_some_and(|path| !path.starts_with("protocol/") && path != "queue.rs")
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository can be read") {
        let path = entry.expect("a folder of the repository can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !NOT_OURS.contains(&name) {
            collect(&path, paths);
        } else if name.ends_with(".rs") {
            paths.push(path);
        }
    }
}

fn read(path: &Path) -> Source {
    let text = fs::read_to_string(path).expect("a source file is readable text");
    let path = path.strip_prefix(root()).expect("it was found below the root");
    Source::new(&path.to_string_lossy().replace('\\', "/"), &text)
}

// === impl Source ===

impl Source {
    /// A file with that text.
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        let product = without_tests(&code);
        Source { path: path.to_owned(), text: text.to_owned(), code, product, comments }
    }

    /// A complaint about a line, counted from 1.
    pub(crate) fn complaint(&self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.path)
    }
}

/// Lines with their numbers, from 1.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line))
}

/// The line that the byte `at` is on, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Whether `text` has `word` in it, not as a part of a longer word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}

/// Code and comments, each with the other blank.
fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::new(), String::new());
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let comment = comment_length(rest);
        let literal = if is_inside_word(&chars, at) { 0 } else { literal_length(rest) };
        let length = comment.max(literal).max(1);
        for &c in &rest[..length] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            code.push(if comment + literal > 0 { blank } else { c });
            comments.push(if comment > 0 { c } else { blank });
        }
        at += length;
    }
    (code, comments)
}

fn is_inside_word(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_')
}

/// How long the comment is that `rest` begins with; 0: none.
fn comment_length(rest: &[char]) -> usize {
    match rest {
        ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => {
            let (mut depth, mut at) = (0, 0);
            loop {
                match rest[at..] {
                    ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
                    ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
                    [] => return at,
                    _ => at += 1,
                }
                if depth == 0 {
                    return at;
                }
            }
        }
        _ => 0,
    }
}

/// How long the string or character is that `rest` begins with; 0: none.
fn literal_length(rest: &[char]) -> usize {
    let prefix = rest.iter().take_while(|c| matches!(c, 'b' | 'c' | 'r')).count();
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    let opened = prefix + hashes;
    match rest.get(opened) {
        Some('"') if rest[..prefix].contains(&'r') => {
            let end: Vec<char> = format!("\"{}", "#".repeat(hashes)).chars().collect();
            let body = &rest[opened + 1..];
            let close = body.windows(end.len()).position(|window| window == end);
            close.map_or(rest.len(), |close| opened + 1 + close + end.len())
        }
        Some('"') if hashes == 0 => quoted_length(rest, opened, '"'),
        // A quote that no second one follows soon is a lifetime.
        Some('\'') if hashes == 0 => match rest[opened + 1..] {
            ['\\', ..] | [_, '\'', ..] => quoted_length(rest, opened, '\''),
            _ => 0,
        },
        _ => 0,
    }
}

fn quoted_length(rest: &[char], opened: usize, quote: char) -> usize {
    let mut at = opened + 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Blanks what stands under `#[cfg(test)]` and `#[cfg(all(test, ..))]`: up to the end of its
/// block, or to the semicolon if it has none.
fn without_tests(code: &str) -> String {
    let mut product = code.to_owned();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        while let Some(start) = product.find(attribute) {
            let end = match product[start..].find(['{', ';']).map(|at| start + at) {
                Some(at) if product[at..].starts_with('{') => closing(&product, at),
                Some(at) => at + 1,
                None => product.len(),
            };
            let blank = product[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' });
            let blank: String = blank.collect();
            product.replace_range(start..end, &blank);
        }
    }
    product
}

/// Where the block ends that opens at `open`: after its closing brace.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return open + at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

#[test]
fn comments_and_literals_are_told_from_code() {
    let source = Source::new(
        "src/x.rs",
        "let a = \"// no \\\" comment\"; // one: \"x\"\n\
         let b: &'a str = r#\"use \"loom\"\"#; /* two /* deep */ */ let c = ('\\'', b'{', '\"');\n",
    );
    assert!(!source.code.contains("comment") && !source.code.contains("loom"));
    assert!(!source.code.contains("deep") && !source.code.contains('{'));
    assert!(source.code.contains("let b: &'a str") && source.code.contains("let c = ("));
    assert_eq!(source.code.lines().count(), source.text.lines().count());
    assert!(source.comments.contains("// one") && source.comments.contains("two /* deep */ */"));
    assert!(!source.comments.contains("no"));
}

#[test]
fn modules_of_tests_are_no_product() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
    let source = Source::new("src/x.rs", text);
    assert!(source.code.contains("fn b"));
    assert!(!source.product.contains("fn b"));
    assert!(source.product.contains("fn a") && source.product.contains("fn c"));
    assert_eq!(source.product.lines().count(), 6);
}
