//! The names of variables, read from the source: a site is a file, a line and a column, and there
//! the source says which variable is read or written. So a name is never out of date, and the
//! engine need not know about names.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use coherence_machine::Tally;

/// The root of the repository, to which the files of sites are relative.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The name of a site's variable: the file, without what all files have, and what stands before the
/// dot.
pub(crate) fn name(site: &str) -> String {
    if let Some(code) = site.strip_prefix("0x") {
        return of_code(code).unwrap_or_else(|| "other memory".to_owned());
    }
    let mut parts = site.rsplitn(3, ':');
    let mut number = || parts.next()?.parse::<usize>().ok();
    let (Some(column), Some(line)) = (number(), number()) else { return site.to_owned() };
    let Some(file) = parts.next() else { return site.to_owned() };
    let short = short(file.trim_start_matches("proofs/coherence/"));
    let short = short.trim_end_matches(".rs").trim_end_matches("/mod");
    let variable = fs::read_to_string(root().join(file))
        .ok()
        .and_then(|text| variable(&text, line, column))
        .unwrap_or_else(|| format!("line {line}"));
    format!("{short}: {variable}")
}

/// A path without what all files have: of the engine and its core the path in `src`, of another
/// crate with the crate's name before.
fn short(path: &str) -> String {
    let path = path.trim_start_matches("crates/core/").trim_start_matches("src/");
    path.strip_prefix("crates/").map_or(path.to_owned(), |path| path.replacen("/src/", "/", 1))
}

/// The place in the workspace from which the code at this address was compiled.
fn of_code(address: &str) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let begins = maps.lines().next()?.split('-').next()?;
    let address = usize::from_str_radix(address, 16).ok()?;
    // The call comes before the address to which it returns.
    let address = address - usize::from_str_radix(begins, 16).ok()? - 1;
    let output = Command::new("addr2line")
        .args(["-i", "-e"])
        .arg(env::current_exe().ok()?)
        .arg(format!("{address:#x}"))
        .output()
        .ok()?;
    let frames = String::from_utf8(output.stdout).ok()?;
    // Of code that was inlined: where the workspace uses it.
    let is_ours = |frame: &&str| !frame.contains("/rustc/") && !frame.contains("/registry/");
    let Some(frame) = frames.lines().find(is_ours).and_then(|frame| frame.split(' ').next()) else {
        let of_others = frames.lines().find_map(|frame| frame.split("/registry/src/").nth(1));
        let name =
            of_others.and_then(|path| path.split('/').nth(1)).unwrap_or("the standard library");
        return Some(format!("memory in {name}"));
    };
    let at =
        ["/crates/", "/src/", "/proofs/"].into_iter().filter_map(|part| frame.find(part)).min()?;
    Some(format!("memory at {}", short(&frame[at + 1..])))
}

/// What the access at this line and column is to.
fn variable(text: &str, line: usize, column: usize) -> Option<String> {
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let at = start + column - 1;
    let before = without_comment(text.get(..at)?.trim_end());
    let found = match before.strip_suffix('.') {
        Some(receiver) => last_name(without_comment(receiver.trim_end())),
        // The access is an operator's.
        None => first_name(text.get(at..)?),
    };
    (!found.is_empty()).then(|| found.to_owned())
}

/// Without the comment that it ends with: a sentence has its dots, too.
fn without_comment(mut text: &str) -> &str {
    while let Some(at) = text.rfind('\n').filter(|&at| text[at..].trim_start().starts_with("//")) {
        text = text[..at].trim_end();
    }
    text
}

/// The last name of a path, without its index or arguments.
fn last_name(mut path: &str) -> &str {
    while let Some(close) = path.chars().next_back().filter(|last| matches!(last, ']' | ')')) {
        let open = if close == ']' { '[' } else { '(' };
        let mut depth = 0;
        let opening = path.char_indices().rev().find(|&(_, c)| {
            depth += i32::from(c == close) - i32::from(c == open);
            depth == 0
        });
        path = opening.map_or("", |(at, _)| &path[..at]);
    }
    let begin = path.rfind(|c: char| !is_of_name(c)).map_or(0, |at| at + 1);
    &path[begin..]
}

/// The last part of the path that begins here.
fn first_name(text: &str) -> &str {
    let text = text.trim_start_matches(['*', '&']);
    let end = text.find(|c: char| !is_of_name(c) && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').rsplit('.').next().unwrap_or_default()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Adds up what has the same name.
pub(crate) fn by_name(sites: &[(String, Tally)]) -> Vec<(String, Tally)> {
    let mut sums: HashMap<String, Tally> = HashMap::new();
    for (site, tally) in sites {
        let sum = sums.entry(name(site)).or_default();
        *sum = sum.plus(*tally);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.transfers().cmp(&a.1.transfers()).then_with(|| a.0.cmp(&b.0)));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_what_stands_before_the_dot() {
        let text = "a\n    self.state.held.load(x);\n    self.places[self.at(y)]\n        .swap(z)";
        assert_eq!(variable(text, 2, 21).as_deref(), Some("held"));
        assert_eq!(variable(text, 4, 10).as_deref(), Some("places"));
        assert_eq!(variable("  *tree.items.first", 1, 3).as_deref(), Some("first"));
        assert_eq!(variable("  this.lock().pop()", 1, 15).as_deref(), Some("lock"));
    }

    #[test]
    fn the_dot_of_a_comment_is_none_of_a_variable() {
        let text =
            "a\n  // To\n  // its core.\n  prefetch(at)\n  self.head\n    // Of it.\n    .load(x)";
        assert_eq!(variable(text, 4, 3).as_deref(), Some("prefetch"));
        assert_eq!(variable(text, 7, 6).as_deref(), Some("head"));
    }

    #[test]
    fn a_site_that_is_none_keeps_its_name() {
        assert_eq!(name("somewhere"), "somewhere");
    }
}
