//! The demonstration program `examples/service`: it passes its own audit, speaks JSON and refuses
//! bad arguments; and its audit does notice each offence that it claims to notice.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../examples/service/audit.rs"]
mod audit;
mod common;

use audit::{Books, Ledger};

// --- the program ---

/// The example, built already by a plain `cargo test`; a run of this file alone builds it here.
fn program() -> Command {
    let test = std::env::current_exe().expect("this test has a path");
    let profile = test.ancestors().nth(2).expect("tests live in <target>/<profile>/deps");
    let path: PathBuf =
        profile.join("examples").join(format!("service{}", std::env::consts::EXE_SUFFIX));
    if !path.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--example", "service", "--manifest-path"]);
        cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        cargo.arg("--target-dir").arg(profile.parent().expect("<target>"));
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo runs").success(), "the example does not build");
    }
    Command::new(path)
}

fn run(args: &[&str]) -> Output {
    program().args(args).output().expect("the example starts")
}

#[test]
fn a_short_run_passes_its_own_audit_and_reports_one_line_of_json() {
    let seconds = common::scaled(1).clamp(1, 60).to_string();
    let output = run(&["--seconds", &seconds, "--connections", "40", "--json"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert_eq!(stdout.lines().count(), 1, "{stdout}");

    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    let number = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{key} in {stdout}"));
    for key in ["early", "lost", "duplicate", "contradicted", "violations"] {
        assert_eq!(number(key), 0, "{key} in {stdout}");
    }
    for key in ["requests", "scheduled", "cancelled", "reset", "fired", "closed_idle"] {
        assert!(number(key) > 0, "{key} in {stdout}");
    }
    assert_eq!(number("scheduled"), number("cancelled") + number("fired"), "{stdout}");
    assert!(number("late_p50_us") <= number("late_p99_us"), "{stdout}");
    assert!(number("late_p99_us") <= number("late_max_us"), "{stdout}");
    // Where there is no getrusage it is null, but the key is there.
    assert!(report.as_object().is_some_and(|keys| keys.contains_key("cpu_ms")), "{stdout}");
}

#[test]
fn without_json_the_report_is_for_people() {
    let output = run(&["--seconds", "1", "--connections", "5"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("0 early, 0 lost, 0 fired twice, 0 contradicted"), "{stdout}");
    assert!(output.stderr.is_empty(), "no progress where there is no terminal");
}

#[test]
fn bad_arguments_get_one_line_that_names_them_and_exit_code_two() {
    let cases: [(&[&str], &str); 9] = [
        (&["--seconds", "0"], "--seconds"),
        (&["--seconds", "soon"], "soon"),
        (&["--seconds", "99999999999999999999"], "--seconds"),
        (&["--seconds"], "--seconds"),
        (&["--connections", "0"], "--connections"),
        (&["--connections", "-1"], "--connections"),
        (&["--connections", "1000000"], "10000"),
        (&["--speed", "9"], "--speed"),
        (&["more"], "more"),
    ];
    for (args, named) in cases {
        let output = run(args);
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn help_names_every_option() {
    let output = run(&["--help"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0));
    for option in ["--seconds", "--connections", "--json", "--help"] {
        assert!(stdout.contains(option), "{option}");
    }
}

// --- its audit ---

const DELAY: Duration = Duration::from_millis(100);
const MOMENT: Duration = Duration::from_nanos(1);

/// The books of a ledger to which a story happened, told from a fixed instant.
fn books_after(story: impl FnOnce(&mut Ledger, Instant)) -> Books {
    let mut ledger = Ledger::new("test");
    story(&mut ledger, Instant::now());
    ledger.close()
}

#[test]
fn timers_that_meet_one_fate_in_time_are_no_violation() {
    let books = books_after(|ledger, now| {
        let fired = ledger.arm(7, now + DELAY);
        let cancelled = ledger.arm(8, now + DELAY);
        let moved = ledger.arm(9, now + DELAY);
        assert_eq!(ledger.pending_count(), 3);
        ledger.cancel(cancelled);
        ledger.reset(moved, now + 2 * DELAY);
        assert_eq!(ledger.fire(fired, now + DELAY), Some(7));
        assert_eq!(ledger.fire(moved, now + 2 * DELAY), Some(9));
        assert_eq!(ledger.pending_count(), 0);
    });
    assert_eq!(books.violations(), 0, "{:?}", books.notes);
    assert_eq!((books.scheduled, books.cancelled, books.reset, books.fired), (3, 1, 1, 2));
    assert_eq!(books.lateness_ns.max(), 0);
}

#[test]
fn a_fire_one_nanosecond_before_the_deadline_is_early() {
    let books = books_after(|ledger, now| {
        let timer = ledger.arm(0, now + DELAY);
        ledger.fire(timer, now + DELAY - MOMENT);
    });
    assert_eq!((books.early, books.violations()), (1, 1));
}

#[test]
fn a_fire_at_the_old_deadline_after_a_confirmed_reset_is_early() {
    let books = books_after(|ledger, now| {
        let timer = ledger.arm(0, now + DELAY);
        ledger.reset(timer, now + 2 * DELAY);
        ledger.fire(timer, now + DELAY);
    });
    assert_eq!((books.early, books.violations()), (1, 1));
}

#[test]
fn a_timer_without_a_fate_is_lost() {
    let books = books_after(|ledger, now| {
        ledger.arm(0, now);
    });
    assert_eq!((books.lost, books.violations()), (1, 1));
}

#[test]
fn the_second_fire_is_a_duplicate_and_has_no_owner() {
    let books = books_after(|ledger, now| {
        let timer = ledger.arm(0, now);
        assert_eq!(ledger.fire(timer, now), Some(0));
        assert_eq!(ledger.fire(timer, now), None);
    });
    assert_eq!((books.fired, books.duplicate, books.violations()), (1, 1, 1));
}

#[test]
fn firing_and_a_confirmed_cancel_contradict_each_other_in_either_order() {
    let books = books_after(|ledger, now| {
        let first = ledger.arm(0, now);
        ledger.cancel(first);
        assert_eq!(ledger.fire(first, now), None);
        let second = ledger.arm(0, now);
        ledger.fire(second, now);
        ledger.cancel(second);
    });
    assert_eq!((books.contradicted, books.violations()), (2, 2));
}

#[test]
fn a_late_second_fate_never_passes_for_the_next_timer_in_the_same_place() {
    let books = books_after(|ledger, now| {
        let old = ledger.arm(0, now);
        ledger.fire(old, now);
        // Enough timers to make the ledger use every place again.
        for owner in 0..200_000 {
            let timer = ledger.arm(owner, now);
            assert_ne!(timer, old);
            ledger.cancel(timer);
        }
        let pending = ledger.arm(1, now);
        assert_eq!(ledger.fire(old, now), None);
        assert_eq!(ledger.fire(pending, now), Some(1));
    });
    assert_eq!((books.duplicate, books.violations()), (1, 1));
}

#[test]
fn books_that_are_added_up_keep_every_offence() {
    let mut sum = books_after(|ledger, now| {
        ledger.arm(0, now);
    });
    sum.add(books_after(|ledger, now| {
        let timer = ledger.arm(0, now + DELAY);
        ledger.fire(timer, now);
    }));
    assert_eq!((sum.scheduled, sum.lost, sum.early, sum.violations()), (2, 1, 1, 2));
    assert_eq!(sum.notes.len(), 2);
}
