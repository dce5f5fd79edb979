//! The program as its users run it: it passes its own audit, speaks JSON and refuses bad arguments.

#[cfg(unix)]
use std::io::{BufRead, BufReader};
#[cfg(unix)]
use std::process::Stdio;
use std::process::{Command, Output};

use serde_json::Value;

fn run(args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-demo"));
    program.args(args).output().expect("the program starts")
}

#[test]
fn a_short_run_passes_its_own_audit_and_reports_one_line_of_json() {
    let keys = ["requests", "scheduled", "cancelled", "reset", "fired", "closed_idle"];
    let seconds = support::scaled(1).clamp(1, 60);
    let stdout = until(seconds, &["--connections", "40"], |report| all_are_above(0, report, &keys));
    assert_eq!(stdout.lines().count(), 1, "{stdout}");

    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    let number = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{key} in {stdout}"));
    for key in ["early", "lost", "duplicate", "contradicted", "violations"] {
        assert_eq!(number(key), 0, "{key} in {stdout}");
    }
    assert_eq!(number("scheduled"), number("cancelled") + number("fired"), "{stdout}");
    assert!(number("late_p50_us") <= number("late_p99_us"), "{stdout}");
    assert!(number("late_p99_us") <= number("late_max_us"), "{stdout}");
    // Where there is no getrusage it is null, but the key is there.
    assert!(report.as_object().is_some_and(|keys| keys.contains_key("cpu_ms")), "{stdout}");
}

#[test]
#[cfg(unix)]
fn without_json_there_are_lines_of_figures_and_then_a_verdict_in_words() {
    let (output, lines) = interrupted("5");
    let stdout = lines.join("\n");
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    for figure in ["5 connections", "3,600 s", "tickless"] {
        assert!(lines[0].contains(figure), "{figure} in {}", lines[0]);
    }
    for label in ["timers:", "pending", "cancelled", "reset", "fired", "late:", "CPU:"] {
        assert!(lines[1].contains(label), "{label} in {}", lines[1]);
    }
    let verdict = lines.iter().find(|line| line.starts_with("All well: ")).expect("a verdict");
    let fired = stdout.split(" fired, at most").next().and_then(|text| text.rsplit(' ').next());
    let claim = format!("every one of {} due timers fired, none early", fired.expect("a count"));
    assert!(verdict.contains(&claim), "{claim} in {verdict}");
    for term in ["early:", "lost:", "duplicate:", "contradicted:"] {
        assert!(lines.iter().any(|line| line.starts_with(term)), "{term} in {stdout}");
    }
    assert!(!stdout.contains('\u{1b}'), "this is no terminal: {stdout}");
    assert!(output.stderr.is_empty(), "nothing is wrong");
}

/// What a run with these arguments says in JSON that is long enough: so many seconds, or more on a
/// machine that gets little done in them. After minutes, something hangs.
fn until(seconds: u64, args: &[&str], is_enough: impl Fn(&Value) -> bool) -> String {
    for seconds in [1, 4, 16, 64, 256].map(|times| times * seconds) {
        let output = run(&[&["--seconds", &seconds.to_string(), "--json"], args].concat());
        let stdout = String::from_utf8(output.stdout).expect("text");
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        if is_enough(&serde_json::from_str(&stdout).expect("JSON")) {
            return stdout;
        }
    }
    panic!("no run of {args:?} is long enough");
}

fn all_are_above(least: u64, report: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| report[key].as_u64() > Some(least))
}

#[test]
fn idle_timers_are_pending_beside_the_load_and_are_cancelled_at_its_end() {
    let keys = ["peak_pending", "scheduled", "cancelled"];
    for engine in ["tickless", "tokio"] {
        let args = ["--connections", "20", "--timers", "50000", "--engine", engine];
        // Some of the load are as well.
        let stdout = until(1, &args, |report| all_are_above(50_000, report, &keys));
        let report: Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!(report["idle_timers"], 50_000, "{report}");
        assert_eq!(report["violations"], 0, "{report}");
    }
}

#[test]
fn the_service_runs_on_the_timers_of_tokio_too() {
    let keys = ["requests", "cancelled", "reset", "fired", "closed_idle"];
    let args = ["--connections", "20", "--engine", "tokio"];
    let stdout = until(1, &args, |report| all_are_above(0, report, &keys));
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&report["engine"], &report["violations"]), (&"tokio".into(), &0.into()));
}

#[test]
fn a_comparison_runs_on_both_engines_and_ends_with_a_table() {
    let output = run(&["--seconds", "1", "--connections", "20", "--compare"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert_eq!(stdout.matches("All well: ").count(), 2, "{stdout}");
    let table = stdout.lines().skip_while(|line| !line.trim().starts_with("requests/s"));
    let table: Vec<&str> = table.collect();
    for head in ["CPU", "p99", "wake-ups"] {
        assert!(table[0].contains(head), "{head} in {stdout}");
    }
    for (line, engine) in table[1..].iter().zip(["tickless", "tokio"]) {
        assert!(line.starts_with(engine) && line.trim_end().ends_with(" 0"), "{line}");
    }
    assert!(table.iter().any(|line| line.starts_with("How to read it: ")), "{stdout}");
}

#[test]
fn a_comparison_in_json_is_one_line_for_each_engine() {
    let output = run(&["--seconds", "1", "--connections", "20", "--compare", "--json"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    let reports: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let engines: Vec<&Value> = reports.iter().map(|report| &report["engine"]).collect();
    assert_eq!(engines, ["tickless", "tokio"]);
}

/// A run of an hour that is interrupted when it has told figures, and the lines of all that it
/// tells.
#[cfg(unix)]
fn interrupted(connections: &str) -> (Output, Vec<String>) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-demo"));
    program.args(["--seconds", "3600", "--connections", connections]);
    let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut lines: Vec<String> = Vec::new();
    while !lines.last().is_some_and(|line| line.contains("requests/s")) {
        lines.push(out.next().expect("a line of figures").expect("text"));
    }
    let id = i32::try_from(child.id()).expect("process ids are small");
    // SAFETY: a child that nobody has waited for keeps its id.
    assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    lines.extend(out.map(|line| line.expect("text")));
    (child.wait_with_output().expect("it ends"), lines)
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_the_run_with_its_report() {
    let (output, lines) = interrupted("20");
    let told = lines.join("\n");
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("(interrupted)") && told.contains("All well: "), "{told}");
}

#[test]
fn the_version_is_that_of_the_engine() {
    let output = run(&["--version"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert_eq!(stdout.trim(), format!("tickless-demo {}", env!("CARGO_PKG_VERSION")));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn bad_arguments_get_one_line_that_names_them_and_exit_code_two() {
    let cases: [(&[&str], &str); 12] = [
        (&["--seconds", "0"], "--seconds"),
        (&["--seconds", "soon"], "soon"),
        (&["--seconds", "99999999999999999999"], "--seconds"),
        (&["--seconds"], "--seconds"),
        (&["--connections", "0"], "--connections"),
        (&["--connections", "-1"], "--connections"),
        (&["--connections", "1000000"], "10000"),
        (&["--timers", "-5"], "--timers"),
        (&["--engine", "steam"], "steam"),
        (&["--compare", "--engine", "tokio"], "--engine"),
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
fn a_report_that_cannot_be_written_is_refused_before_the_run() {
    let output = run(&["--report", "/nowhere/at/all.html"]);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("/nowhere/at/all.html"), "{stderr}");
    assert!(output.stdout.is_empty());
}

#[test]
fn help_names_every_option() {
    let output = run(&["--help"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0));
    let options = "--seconds --connections --timers --engine --compare --report --json --version";
    for option in options.split(' ') {
        assert!(stdout.contains(option), "{option}");
    }
}
