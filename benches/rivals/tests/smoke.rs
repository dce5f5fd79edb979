//! The bench runs: every workload with every contender that can do it, at a tiny scale, and each
//! contender did as often what it was asked to as it was asked. Counts, never times.
//!
//! A test per workload. `TICKLESS_TEST_SCALE` makes them larger.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

const SCALE: f64 = 0.000_5;

/// Timers that `wakeups` has pending at its end.
const PENDING_IN_WAKEUPS: u64 = 1_000;

/// Runs the bench and returns what it printed.
fn rivals(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rivals")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The records of one run of a workload on these numbers of threads.
fn run(workload: &str, threads: &str) -> Vec<Value> {
    let json = std::env::temp_dir().join(format!("rivals-{workload}-{}", std::process::id()));
    let by = std::env::var("TICKLESS_TEST_SCALE").ok().and_then(|by| by.parse::<f64>().ok());
    let scale = (SCALE * by.unwrap_or(1.0)).min(1.0).to_string();
    let table = rivals(&[
        "--workload",
        workload,
        "--threads",
        threads,
        "--runs",
        "1",
        "--scale",
        &scale,
        "--json",
        json.to_str().unwrap(),
    ]);
    assert!(table.contains(workload) && table.contains("ns/op"), "{table}");
    let text = std::fs::read_to_string(&json).unwrap();
    std::fs::remove_file(PathBuf::from(&json)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a workload and checks each record; and that nobody is missing without a reason.
fn check(workload: &str, threads: &str, is_right: impl Fn(&Value) -> bool) {
    let records = run(workload, threads);
    for record in &records {
        assert!(record["n"].as_u64().unwrap() > 0, "{record}");
        assert!(is_right(record), "{record}");
    }
    let measured: BTreeSet<_> =
        records.iter().map(|record| record["contender"].as_str().unwrap().to_owned()).collect();
    let able = able(workload);
    assert_eq!(measured, able);
    let rounds = threads.split(',').count();
    let fixed =
        rounds > 1 && records.iter().all(|record| record["threads"] == records[0]["threads"]);
    let variants = records.iter().map(|record| record["extra"]["variant"].as_u64().unwrap());
    let variants = variants.collect::<BTreeSet<_>>().len();
    let rounds = if fixed { 1 } else { rounds };
    assert_eq!(records.len(), able.len() * rounds * variants);
}

/// The contenders that `--list` says can do a workload.
fn able(workload: &str) -> BTreeSet<String> {
    let list = rivals(&["--list"]);
    let heading = match workload {
        "wheel" => "contenders that are wheels",
        purgatory if purgatory.starts_with("purgatory-") => "contenders that are purgatories",
        _ => "contenders, for",
    };
    let lines = list.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let names = lines.take_while(|line| !line.is_empty());
    let mut names: BTreeSet<_> =
        names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    let reasons: Vec<_> =
        list.lines().skip_while(|line| !line.starts_with("not applicable")).skip(1).collect();
    for pair in reasons.chunks(2).filter(|pair| pair[0].contains(':')) {
        if pair[1].split(',').any(|name| name.trim() == workload) {
            for name in pair[0].split(':').next().unwrap().split(',') {
                names.remove(name.trim());
            }
        }
    }
    assert!(names.len() > 2, "{list}");
    names
}

/// A count among the extras.
fn count(record: &Value, name: &str) -> u64 {
    record["extra"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {record}"))
}

/// The number of operations.
fn n(record: &Value) -> u64 {
    record["n"].as_u64().unwrap()
}

#[test]
fn cancel_heavy_cancels_as_many_as_it_schedules_and_none_fires() {
    check("cancel-heavy", "1,2", |record| {
        count(record, "cancelled") == n(record) && count(record, "fired") == 0
    });
}

#[test]
fn handoff_cancels_all_and_none_fires() {
    check("handoff", "1,2", |record| {
        count(record, "cancelled") == n(record) && count(record, "fired") == 0
    });
}

#[test]
fn reset_moves_as_many_as_it_is_asked_to_and_none_fires() {
    check("reset", "1,2", |record| {
        count(record, "reset") == n(record) && count(record, "fired") == 0
    });
}

#[test]
fn resets_to_earlier_times_move_as_many_and_none_fires() {
    check("reset-earlier", "1,2", |record| {
        count(record, "reset") == n(record) && count(record, "fired") == 0
    });
}

#[test]
fn a_service_has_its_late_requests_expire_and_no_others() {
    check("service", "1,2", |record| {
        let is_ours = record["contender"].as_str().unwrap().starts_with("tickless");
        let is_early = is_ours && count(record, "early") > 0;
        count(record, "fired") == count(record, "expired") && !is_early
    });
}

#[test]
fn a_paced_load_is_cancelled_to_the_last_timer_and_its_own_cost_is_told() {
    check("paced", "1,2", |record| {
        let is_all = count(record, "cancelled") == n(record) && count(record, "fired") == 0;
        is_all && record["extra"]["load_cpu_ns_per_op"].as_f64().is_some_and(|ns| ns > 0.0)
    });
}

#[test]
fn timers_of_one_deadline_or_one_timeout_all_fire() {
    check("clustered", "1,2", |record| {
        let is_ours = record["contender"].as_str().unwrap().starts_with("tickless");
        let is_early = is_ours && count(record, "early") > 0;
        count(record, "fired") == n(record) && count(record, "scheduled") == n(record) && !is_early
    });
}

#[test]
fn fire_all_fires_all() {
    check("fire-all", "1,2", |record| {
        count(record, "fired") == n(record) && count(record, "scheduled") == n(record)
    });
}

#[test]
fn scale_cancels_among_those_that_stay() {
    check("scale", "1", |record| {
        let is_all = count(record, "cancelled") == n(record) && count(record, "fired") == 0;
        is_all && count(record, "pending") >= 100
    });
}

#[test]
fn steady_fires_all() {
    check("steady", "1", |record| {
        let may_lose = record["contender"] == "pingora";
        let lost = count(record, "lost");
        (lost == 0 || may_lose) && count(record, "fired") + lost == count(record, "scheduled")
    });
}

#[test]
fn idle_fires_none() {
    check("idle", "1", |record| {
        count(record, "fired") == 0 && count(record, "scheduled") == n(record)
    });
}

#[test]
fn wakeups_cancels_what_does_not_fire() {
    check("wakeups", "1", |record| {
        let ended = count(record, "cancelled") + count(record, "fired");
        ended + PENDING_IN_WAKEUPS >= count(record, "scheduled")
    });
}

#[test]
fn single_fires_one_after_the_other() {
    check("single", "1", |record| count(record, "fired") == n(record));
}

#[test]
fn precise_fires_all() {
    check("precise", "1", |record| count(record, "fired") == n(record));
}

#[test]
fn stall_fires_all_and_is_called_meanwhile() {
    check("stall", "1", |record| count(record, "fired") == n(record) && count(record, "calls") > 0);
}

#[test]
fn all_fire_beside_a_task_that_is_stuck() {
    check("stuck", "1,2", |record| count(record, "fired") == n(record));
}

#[test]
fn all_fire_that_are_due_at_once_and_the_probes_beside_them() {
    check("burst", "1", |record| {
        count(record, "fired") == n(record) && count(record, "probes") > 0
    });
}

#[test]
fn wheels_fire_all() {
    check("wheel", "1", |record| count(record, "fired") == n(record));
}

/// Each operation ended once; those that take too long timed out, and none did so early. Only
/// lists that need a purge may still have some of what is over.
fn has_ended_all(record: &Value) -> bool {
    let (completed, expired) = (count(record, "completed"), count(record, "expired"));
    let expires = record["contender"] != "purgatory-floor";
    let lets_go = record["contender"] != "mutex-purge";
    completed + expired == n(record)
        && (expired > 0) == expires
        && (!expires || count(record, "early") == 0)
        && (!lets_go || count(record, "kept") == 0)
}

#[test]
fn operations_that_are_done_soon_are_completed_or_time_out() {
    check("purgatory-short", "1", has_ended_all);
}

#[test]
fn operations_half_of_which_take_too_long_are_completed_or_time_out() {
    check("purgatory-long", "1", has_ended_all);
}

/// The flag is the same in the build of the bench and of this test.
#[test]
fn a_contender_that_is_not_in_this_build_says_how_to_build_it() {
    let list = rivals(&["--list"]);
    assert!(list.contains("tokio-alt"), "{list}");
    let how = "benches/measure.sh";
    assert_eq!(list.contains(how), cfg!(not(tokio_unstable)), "{list}");
    assert_eq!(able("reset").contains("tokio-alt"), cfg!(tokio_unstable));
    assert_eq!(able("reset").contains("tokio-alt-threads"), cfg!(tokio_unstable));
    let mut rivals = Command::new(env!("CARGO_BIN_EXE_rivals"));
    let perf = ["--perf", "--only", "handoff", "--scale", "0.0005", "--runs", "1"];
    let here = std::env::temp_dir().join(format!("rivals-perf-{}", std::process::id()));
    let (json, plots) = (here.join("perf.json"), here.join("plots"));
    std::fs::create_dir_all(&here).unwrap();
    let (document, text) = (here.join("PERF.md"), "<!-- table: handoff -->\n<!-- end -->\n");
    std::fs::write(&document, text).unwrap();
    rivals.args(perf).arg("--json").arg(&json).arg("--out").arg(&plots);
    let output = rivals.arg("--documents").arg(&document).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), cfg!(tokio_unstable), "{said}");
    assert_eq!(said.contains(how), cfg!(not(tokio_unstable)), "{said}");
    let table = std::fs::read_to_string(&document).unwrap();
    assert_eq!(table.contains("| tokio-alt |"), cfg!(tokio_unstable), "{table}");
    std::fs::remove_dir_all(&here).unwrap();
}

#[test]
fn each_workload_has_a_line_that_tells_what_happens() {
    let list = rivals(&["--list"]);
    let lines = list.lines().skip(1).take_while(|line| !line.is_empty());
    let told: Vec<Vec<_>> = lines.map(|line| line.split_whitespace().collect()).collect();
    assert!(told.iter().all(|words| words.len() > 5), "{list}");
    let tests = include_str!("smoke.rs");
    for name in told.iter().map(|words| words[0]) {
        assert!(tests.contains(&format!("check(\"{name}\"")), "no test runs {name}");
    }
}

#[test]
fn another_tick_leaves_out_those_that_have_none() {
    let table = rivals(&["-w", "fire-all", "-r", "1", "--scale", "0.0005", "--tick-us", "100"]);
    assert!(table.contains("tick 100 us") && table.contains("tickless-typed"), "{table}");
    assert!(!table.contains("tokio"), "{table}");
}

#[test]
fn tables_figures_and_plots_are_what_the_kept_results_give() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut rivals = Command::new(env!("CARGO_BIN_EXE_rivals"));
    let output = rivals.arg("--check").current_dir(root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
