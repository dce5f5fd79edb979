//! Sizes, headers, and what a finished file does not have.

use super::source::{Source, closing, has_word, is_product, line_of, numbered};

const MAX_LINE_CHARS: usize = 100;
const MAX_FN_LINES: usize = 70;

/// Functions and lines that are too long.
pub(crate) fn oversized(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in files {
        for (line, text) in numbered(&source.text) {
            let chars = text.chars().count();
            if chars > MAX_LINE_CHARS {
                let message = format!("{chars} characters in a line, of at most {MAX_LINE_CHARS}");
                complaints.push(source.complaint(line, &message));
            }
        }
        for (line, length) in functions(&source.code) {
            if length > MAX_FN_LINES {
                let message = format!("{length} lines in a function, of at most {MAX_FN_LINES}");
                complaints.push(source.complaint(line, &message));
            }
        }
    }
    complaints
}

/// Each function's first line and how many it has.
fn functions(code: &str) -> Vec<(usize, usize)> {
    let mut functions = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        let is_word = code[..start].chars().next_back().is_none_or(char::is_whitespace);
        let body = code[start..].find(['{', ';']).map(|at| start + at);
        let Some(open) = body.filter(|&at| is_word && code[at..].starts_with('{')) else {
            continue;
        };
        let length = code[start..closing(code, open)].lines().count();
        functions.push((line_of(code, start), length));
    }
    functions
}

/// Files that do not begin by saying what they are.
pub(crate) fn headless(files: &[Source]) -> Vec<String> {
    let is_headless = |source: &&Source| {
        let first = source.text.lines().next().unwrap_or_default();
        !(first.starts_with("//! ") || first.starts_with("#![doc = include_str!("))
    };
    let headless = files.iter().filter(is_headless);
    headless.map(|source| source.complaint(1, "begins without a `//!` header")).collect()
}

/// Traces of unfinished work: in code, and in comments.
pub(crate) fn unfinished(files: &[Source]) -> Vec<String> {
    let in_code = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
    let in_comments = ["TODO", "FIXME", "XXX", "HACK"];
    let mut complaints = Vec::new();
    for source in files {
        for (line, text) in numbered(&source.code) {
            for trace in in_code.iter().filter(|trace| text.contains(*trace)) {
                complaints.push(source.complaint(line, &format!("`{trace}`")));
            }
        }
        for (line, text) in numbered(&source.comments) {
            for trace in in_comments.iter().filter(|trace| has_word(text, trace)) {
                complaints.push(source.complaint(line, &format!("`{trace}` in a comment")));
            }
        }
    }
    complaints
}

/// Where files may be modules by their paths. What several programs share is a crate:
/// `tests/support`, `tests/models`, `benches/common`.
const MOUNTS: [&str; 7] = [
    // A part of a program that is no library.
    "crates/demo/tests/demo_audit.rs",
    // Tests of what two kinds of servers have in common, each with the types of its own.
    "crates/durable/tests/durable/nats/",
    "crates/durable/tests/durable/postgres/",
    // What only a proof builds, and stands beside it.
    "crates/sync/src/lib.rs",
    // The worlds that a model is built for, of which one is there.
    "loom-tests/src/model.rs",
    // A model in two files, which is a program by itself and a part of another.
    "loom-tests/tests/hold.rs",
    // A program that a page shows.
    "tests/clients/main.rs",
];

/// Files that are modules by their paths, of which each program has a copy.
pub(crate) fn mounts(files: &[Source]) -> Vec<String> {
    let may = |path: &str| MOUNTS.iter().any(|mount| path.starts_with(mount));
    let mut complaints = Vec::new();
    for source in files.iter().filter(|source| !may(&source.path)) {
        for (line, code) in numbered(&source.code) {
            if code.trim_start().starts_with("#[path = ") {
                complaints.push(source.complaint(line, "what programs share is a crate"));
            }
        }
    }
    complaints
}

/// Lints that are switched off, or expected without a reason.
pub(crate) fn silenced_lints(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in files {
        for (start, _) in source.code.match_indices('#') {
            let attribute = &source.code[start..];
            if !(attribute.starts_with("#[") || attribute.starts_with("#![")) {
                continue;
            }
            let attribute = &attribute[..attribute.find(']').unwrap_or(attribute.len())];
            let line = line_of(&source.code, start);
            // Whether what is deprecated is called so depends on the version of its crate.
            let is_by_version = has_word(attribute, "deprecated") && has_word(attribute, "reason");
            if has_word(attribute, "allow") && !is_by_version {
                complaints.push(source.complaint(line, "a lint is expected, not allowed"));
            } else if has_word(attribute, "expect") && !has_word(attribute, "reason") {
                complaints.push(source.complaint(line, "a lint is expected without a reason"));
            }
        }
    }
    complaints
}

/// Unsafe promises without their reason, and unsafe functions without their conditions. (Unsafe
/// blocks are clippy's: `undocumented_unsafe_blocks`.)
pub(crate) fn unreasoned_unsafe(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in files {
        let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
        let mut in_trait = false;
        for (line, text) in numbered(&source.code) {
            if text.starts_with("impl") || text.starts_with("unsafe impl") {
                // What a trait's functions ask for stands at the trait.
                in_trait = has_word(text, "for");
            }
            let above = || lines[..line - 1].iter().rev().take_while(|line| is_prefix(line));
            if text.trim().starts_with("unsafe impl") && !above().any(|l| l.contains("SAFETY:")) {
                complaints.push(source.complaint(line, "an unsafe impl without `// SAFETY:`"));
            }
            let is_fn = text.contains("unsafe fn ") && !in_trait;
            if is_fn && !above().any(|line| line.contains("# Safety")) {
                complaints.push(source.complaint(line, "an unsafe fn without `# Safety`"));
            }
        }
    }
    complaints
}

/// Chains of conditions with `let`: the compiler that the crates promise to build with has none,
/// and no lint knows.
pub(crate) fn let_chains(files: &[Source]) -> Vec<String> {
    let beside = ["crates/inspect/src/", "crates/netty/src/", "crates/wheel/src/"];
    let ours = |source: &&Source| {
        is_product(&source.path) || beside.iter().any(|folder| source.path.starts_with(folder))
    };
    let mut complaints = Vec::new();
    for source in files.iter().filter(ours) {
        let conditions =
            source.code.match_indices("if ").chain(source.code.match_indices("while "));
        for (start, _) in conditions {
            let condition = condition(&source.code[start..]);
            if condition.contains("let ") && condition.contains("&& ") {
                let line = line_of(&source.code, start);
                complaints.push(source.complaint(line, "`let` in a chain of conditions"));
            }
        }
    }
    complaints
}

/// A condition up to its block, without what is in parentheses.
fn condition(code: &str) -> String {
    let (mut depth, mut is_value, mut found) = (0, false, String::new());
    for c in code.chars() {
        match c {
            // The braces of a pattern come before the value that it is matched with.
            '{' | ';' if depth == 0 && (is_value || !found.contains("let ")) => break,
            // The guard of an arm.
            '>' if found.ends_with('=') => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ if depth == 0 => {
                is_value |= c == '=';
                found.push(c);
            }
            _ => {}
        }
    }
    found
}

/// Whether the line is part of what stands before an item: a comment or an attribute.
fn is_prefix(line: &str) -> bool {
    line.starts_with("//") || line.starts_with("#[")
}

#[test]
fn what_is_too_long_is_found() {
    let found = |text: &str| oversized(&[Source::new("src/a.rs", text)]).len();
    let body =
        |lines: usize| format!("impl A {{\n    fn a() {{\n{}    }}\n}}\n", "b;\n".repeat(lines));
    assert_eq!(found(&body(MAX_FN_LINES - 2)), 0);
    assert_eq!(found(&body(MAX_FN_LINES - 1)), 1);
    assert_eq!(found(&"ä".repeat(MAX_LINE_CHARS)), 0);
    assert_eq!(found(&"ä".repeat(MAX_LINE_CHARS + 1)), 1);
    assert_eq!(functions("fn a();\n\nfn b() {\n}\nlet c: fn (u8);\n"), [(3, 2)]);
}

#[test]
fn unfinished_work_is_found() {
    let found = |text: &str| unfinished(&[Source::new("src/a.rs", text)]).len();
    assert_eq!(found("fn a() { todo!() }\n#[ignore = \"slow\"]\n// FIXME: b\n"), 3);
    assert_eq!(found("let a = \"todo!\"; // Todo lists are not traces.\n"), 0);
}

#[test]
fn a_file_that_is_a_module_by_its_path_is_found() {
    let found = |path: &str| mounts(&[Source::new(path, "#[path = \"a.rs\"]\nmod a;")]).len();
    assert_eq!(found("benches/cancel.rs"), 1);
    assert_eq!(found("loom-tests/src/model.rs"), 0);
}

#[test]
fn silenced_lints_and_bare_unsafe_are_found() {
    let silenced = |text: &str| silenced_lints(&[Source::new("src/a.rs", text)]).len();
    assert_eq!(silenced("#[allow(dead_code)]\n#![allow(\n    unused,\n)]"), 2);
    assert_eq!(silenced("#[allow(deprecated)]\n#[allow(deprecated, reason = \"a\")]"), 1);
    assert_eq!(silenced("#[expect(dead_code)]\n#[cfg_attr(a, expect(b, reason = \"c\"))]"), 1);
    let bare = |text: &str| unreasoned_unsafe(&[Source::new("src/a.rs", text)]).len();
    assert_eq!(bare("unsafe impl Send for A {}"), 1);
    assert_eq!(bare("// SAFETY: b.\n#[c]\nunsafe impl Send for A {}"), 0);
    assert_eq!(bare("// SAFETY: b.\nstruct A;\nunsafe impl Send for A {}"), 1);
    assert_eq!(
        bare("impl A for B {\n    unsafe fn a() {}\n}\nimpl B {\n    unsafe fn b() {}\n}"),
        1
    );
    assert_eq!(bare("/// A.\npub unsafe fn a() {}\n/// # Safety\n/// B.\nunsafe fn b() {}"), 1);
}

#[test]
fn chains_of_conditions_with_let_are_found() {
    let found = |text: &str| let_chains(&[Source::new("src/a.rs", text)]).len();
    assert_eq!(found("if let A(b) = c\n    && d\n{\n}\nwhile a && let B { c } = d {}"), 2);
    assert_eq!(found("if let A { b, .. } = c.d(|e| e && f) {\n    if b && c {}\n}"), 0);
    assert_eq!(found("let a = if b && c { d } else { e };\nlet f = g;"), 0);
    assert_eq!(found("match a { b if c && d => e, _ => f }\nlet g = h;"), 0);
}
