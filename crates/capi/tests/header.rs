//! The header says what a caller has to know. (`ci/capi.sh` checks that it is the one that the
//! crate makes.)

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The comment before each function of the header, with its name.
fn documented_functions(header: &str) -> Vec<(String, String)> {
    let mut functions = Vec::new();
    let mut comment = String::new();
    for line in header.lines().skip_while(|line| !line.starts_with("extern")) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push_str(text);
        } else if let Some((before, _)) = line.split_once('(')
            && let Some(at) = before.find("tickless_")
            && !line.starts_with("typedef")
        {
            functions.push((before[at..].to_owned(), std::mem::take(&mut comment)));
        } else if line.is_empty() {
            comment.clear();
        }
    }
    functions
}

#[test]
fn each_function_is_described_and_what_they_share_is_said_once_at_the_top() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/tickless.h");
    let header = fs::read_to_string(header).unwrap();
    let functions = documented_functions(&header);
    assert!(functions.len() > 20, "{functions:?}");
    for (name, comment) in functions {
        assert!(!comment.is_empty(), "{name} is not described");
        for shared in ["Threads:", "In callbacks:", "TICKLESS_E_NULL"] {
            assert!(!comment.contains(shared), "{name} says {shared}, which the top says");
        }
    }
    // Half of the 7,455 that it had. (uv.h has 6,280, for 300 functions.)
    let words = header.split_whitespace().count();
    assert!(words <= 3_727, "{words} words are too many to read");
}

#[test]
fn what_the_comments_name_is_declared() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/tickless.h");
    let header = fs::read_to_string(header).unwrap();
    let is_comment = |line: &&str| line.trim_start().starts_with(['*', '/']);
    let (comments, code): (Vec<&str>, Vec<&str>) = header.lines().partition(is_comment);
    let words = |lines: Vec<&str>| -> BTreeSet<String> {
        let text = lines.join("\n");
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words.map(str::to_owned).collect()
    };
    let (named, declared) = (words(comments), words(code));
    let is_ours = |word: &&String| {
        // TICKLESS_E_* names several.
        word.to_lowercase().starts_with("tickless_") && !word.ends_with('_')
    };
    let named: BTreeSet<&String> = named.iter().filter(is_ours).collect();
    assert!(named.len() > 40, "{named:?}");
    let unknown: Vec<_> = named.into_iter().filter(|name| !declared.contains(*name)).collect();
    assert!(unknown.is_empty(), "not declared: {unknown:?}");
}

/// What a page shows of a program is there, so that it was compiled and has run.
#[test]
fn the_pages_show_lines_of_the_programs() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pieces = 0;
    for page in fs::read_dir(crate_dir.join("docs")).unwrap() {
        let page = fs::read_to_string(page.unwrap().path()).unwrap();
        let Some((_, program)) = page.split_once("../examples/") else { continue };
        let (program, _) = program.split_once(')').unwrap();
        let program = fs::read_to_string(crate_dir.join("examples").join(program)).unwrap();
        for block in page.split("```c\n").skip(1) {
            let (block, _) = block.split_once("```").unwrap();
            for piece in block.trim_end().split("\n\n") {
                assert!(program.contains(piece), "in no program: {piece}");
                pieces += 1;
            }
        }
    }
    assert!(pieces >= 12, "{pieces}");
}
