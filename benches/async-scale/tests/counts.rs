//! Each workload runs with each kind of timers at a tiny scale, and does what its name says:
//! counts, never times.

use std::process::Command;

use serde_json::Value;

fn record(workload: &str, timers: &str) -> Result<Value, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_async-scale"))
        .args(["--record", "--workload", workload, "--timers", timers])
        .args(["--workers", "2", "--scale", "0.02"])
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn each_workload_does_as_much_as_it_counts_with_all_timers() {
    for workload in ["timeout", "idle", "short", "lone"] {
        for timers in ["none", "tickless", "tickless-drive", "tickless-fine", "tokio", "tokio-alt"]
        {
            let record = match record(workload, timers) {
                Ok(record) => record,
                Err(said) => {
                    assert!(timers == "tokio-alt" && cfg!(not(tokio_unstable)), "{said}");
                    assert!(said.contains("benches/measure.sh"), "{said}");
                    continue;
                }
            };
            assert_eq!((&record["contender"], &record["threads"]), (&timers.into(), &2.into()));
            assert_eq!(record["workload"], format!("async-{workload}"));
            assert!(record["n"].as_u64().unwrap() > 0, "{record}");
            let extra = &record["extra"];
            // No sleep ends early; those without timers do not sleep.
            let sleeps = matches!(workload, "short" | "lone") && timers != "none";
            assert_eq!(extra["early"].as_u64(), sleeps.then_some(0), "{record}");
            assert_eq!(extra["late_us"].is_object(), sleeps, "{record}");
            // Each operation makes or moves one timer, except operations under way when it is
            // counted.
            let calls = extra["timer_calls_per_op"].as_f64();
            assert_eq!(calls.is_some(), timers.starts_with("tickless"), "{record}");
            assert!(calls.is_none_or(|calls| calls > 0.0), "{record}");
        }
    }
}

#[test]
fn a_table_has_a_line_for_each_number_of_workers() {
    let output = Command::new(env!("CARGO_BIN_EXE_async-scale"))
        .args(["--workload", "timeout", "--timers", "none,tickless", "--workers", "1,2"])
        .args(["--runs", "1", "--scale", "0.01"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Vec<_>> = text.lines().map(|l| l.split_whitespace().take(2).collect()).collect();
    let rows = [["1", "none"], ["1", "tickless"], ["2", "none"], ["2", "tickless"]];
    assert_eq!(lines[2..6], rows.map(|row| row.to_vec()), "{text}");
}
