//! The checks of `ci/`, the places that name them, and the tests that only one of them runs.

use std::fs;

use super::documents::document;
use super::source::{Source, numbered, root};

/// Scripts that are no check: what checks share, and what runs them.
const NO_CHECKS: [&str; 2] = ["lib", "long"];

/// Checks without a row of their own in CONTRIBUTING.md's table, rows without a check, and checks
/// that are in another tier than their row says.
pub(crate) fn stray_checks() -> Vec<String> {
    let names = |folder: &str| -> Vec<String> {
        let files = fs::read_dir(root().join(folder)).expect("the checks are there");
        files.filter_map(|file| file.ok()?.file_name().into_string().ok()).collect()
    };
    let of_ci =
        names("ci").into_iter().filter_map(|name| Some(name.strip_suffix(".sh")?.to_owned()));
    let mut proofs = names("proofs");
    proofs.retain(|name| root().join(format!("proofs/{name}/run.sh")).is_file());
    let mut scripts: Vec<String> = of_ci.chain(proofs).collect();
    scripts.retain(|name| !NO_CHECKS.contains(&name.as_str()));
    scripts.sort();
    stray(&scripts, &document("CONTRIBUTING.md"), &document(".ci/run"), &document("ci/long.sh"))
}

fn stray(scripts: &[String], table: &str, gate: &str, long: &str) -> Vec<String> {
    let rows: Vec<(&str, &str)> = table.lines().filter_map(row).collect();
    let (gate, long) = (words_of_lists(gate), words_of_lists(long));
    let mut complaints = Vec::new();
    for script in scripts {
        let mut tiers = rows.iter().filter(|(name, _)| name == script).map(|(_, tier)| *tier);
        let tier = tiers.next();
        if tiers.next().is_some() {
            complaints.push(format!("CONTRIBUTING.md: two rows for {script}"));
        }
        let in_gate = gate.contains(&script.as_str());
        let in_long = long.contains(&script.as_str());
        match tier {
            None => complaints.push(format!("CONTRIBUTING.md: no row for {script}")),
            Some(tier) => {
                let is = match (in_gate, in_long) {
                    (true, true) => "both",
                    (true, false) => "gate",
                    (false, true) => "long",
                    (false, false) => "by hand",
                };
                if tier != is {
                    complaints.push(format!("{script} is `{is}`, and `{tier}` in its row"));
                }
            }
        }
    }
    for (name, _) in rows {
        if !scripts.iter().any(|script| script == name) {
            complaints.push(format!("CONTRIBUTING.md: there is no check {name}"));
        }
    }
    complaints
}

/// A row of the table of checks: the name between backticks, and the tier.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let name = cells.next()?.strip_suffix('`')?;
    let tier = cells.next()?;
    ["gate", "long", "both", "by hand"].contains(&tier).then_some((name, tier))
}

/// The words of a script's arrays, each on one line.
fn words_of_lists(script: &str) -> Vec<&str> {
    let lists = script.lines().filter_map(|line| line.split_once("=(")?.1.strip_suffix(')'));
    lists.flat_map(str::split_whitespace).collect()
}

/// The documents whose commands users copy.
const READMES: [&str; 11] = [
    "README.md",
    "crates/core/README.md",
    "crates/wheel/README.md",
    "crates/inspect/README.md",
    "crates/keyed/README.md",
    "crates/netty/README.md",
    "crates/purgatory/README.md",
    "crates/sync/README.md",
    "crates/durable/README.md",
    "crates/capi/README.md",
    "loom-tests/README.md",
];

/// Commands of cargo in READMEs that no check runs as they stand there.
pub(crate) fn unchecked_commands() -> Vec<String> {
    let files = fs::read_dir(root().join("ci")).expect("the checks are there");
    let scripts = files.filter_map(|file| Some(file.ok()?.path()));
    let scripts = scripts.filter(|path| path.extension().is_some_and(|name| name == "sh"));
    let scripts: String = scripts.filter_map(|path| fs::read_to_string(path).ok()).collect();
    let mut complaints = Vec::new();
    for readme in READMES {
        for command in commands(&document(readme)) {
            if !scripts.contains(command) {
                complaints.push(format!("{readme}: no check runs `{command}`"));
            }
        }
    }
    complaints
}

/// Commands that build and run something: lines of their own, and in the text.
fn commands(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_end);
    let quoted = text.split('`').skip(1).step_by(2);
    let is_command = |line: &&str| {
        ["cargo test", "cargo run", "cargo bench"].iter().any(|begin| line.starts_with(begin))
            && !line.contains('\n')
            && !line.contains("-- ")
    };
    lines.chain(quoted).filter(is_command).collect()
}

/// What only a test that looks at real time has: attempts, counts of sleeps, upper bounds.
const REAL_TIME: [&str; 3] = ["succeeds_at_last", "voluntary_ctxt", "elapsed() <"];

/// The tests that look at real time (`ci/realtime.sh` runs them), and these checks.
const MAY_LOOK: [&str; 4] =
    ["tests/realtime/", "crates/netty/tests/wakes", "crates/inspect/tests/realtime", "tests/tidy/"];

/// Other tests that look at real time, of whichever crate.
pub(crate) fn tests_of_real_time(files: &[Source]) -> Vec<String> {
    let is_other = |source: &&Source| {
        source.path.split('/').any(|folder| folder == "tests")
            && !MAY_LOOK.iter().any(|begin| source.path.starts_with(begin))
    };
    let mut complaints = Vec::new();
    for source in files.iter().filter(is_other) {
        for (line, code) in numbered(&source.code) {
            // A limit for what hangs, a manual clock, and what is no verdict.
            let is_harmless = ["PATIENCE", "LIMIT", "clock.elapsed()", "while ", "let "]
                .iter()
                .any(|what| code.contains(*what));
            let looks = REAL_TIME.iter().find(|what| code.contains(**what));
            if let Some(what) = looks.filter(|_| !is_harmless) {
                complaints.push(source.complaint(line, &format!("`{what}`: see tests/realtime")));
            }
        }
    }
    complaints
}

#[test]
fn a_check_without_a_row_or_in_another_tier_is_found() {
    let scripts = ["fmt", "asan", "lost", "mutants"].map(str::to_owned);
    let table = "| `fmt` | gate | layout | |\n| `asan` | gate | memory | |\n\
                 | `mutants` | long | tests can fail | |\n| `gone` | gate | nothing | |\n\
                 | `fmt` | gate | once more | |\n";
    let gate = "ALONE=(fmt asan)\n";
    let expected = [
        "CONTRIBUTING.md: two rows for fmt",
        "asan is `both`, and `gate` in its row",
        "CONTRIBUTING.md: no row for lost",
        "CONTRIBUTING.md: there is no check gone",
    ];
    assert_eq!(stray(&scripts, table, gate, "STAGES=(asan)\nSTAGES+=(mutants)\n"), expected);
}

#[test]
fn a_command_is_found_in_a_block_and_in_the_text() {
    let text = "```text\ncargo test\n```\n`cargo run -p demo` shows it, `cargo add x` does not";
    assert_eq!(commands(text), ["cargo test", "cargo run -p demo"]);
}

#[test]
fn a_test_that_looks_at_real_time_is_found() {
    let found = |text: &str| tests_of_real_time(&[Source::new("tests/a.rs", text)]).len();
    assert_eq!(found("assert!(begun.elapsed() < MS);"), 1);
    assert_eq!(found("assert!(begun.elapsed() < PATIENCE);\nassert!(begun.elapsed() >= MS);"), 0);
    assert_eq!(found("assert!(clock.elapsed() > MS);"), 0);
    let durable = Source::new("crates/durable/tests/a.rs", "assert!(begun.elapsed() < MS);");
    assert_eq!(tests_of_real_time(&[durable]).len(), 1);
    let realtime = Source::new("tests/realtime/a.rs", "assert!(begun.elapsed() < MS);");
    assert_eq!(tests_of_real_time(&[realtime]).len(), 0);
}
