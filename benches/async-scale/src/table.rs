//! Records as a table to read.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::workload::Workload;

/// The medians, a line for each number of workers and kind of timers, in the order in which they
/// were first measured.
pub(crate) fn table(workload: Workload, records: &[Value]) -> String {
    let mut groups: Vec<(Group, Vec<&Value>)> = Vec::new();
    for record in records {
        let group = Group::of(record);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, records)) => records.push(record),
            None => groups.push((group, vec![record])),
        }
    }
    let median = |records: &[&Value], path: &str| {
        let mut values: Vec<f64> =
            records.iter().filter_map(|record| record.pointer(path)?.as_f64()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let floors: BTreeMap<u64, f64> = groups
        .iter()
        .filter(|(group, _)| group.timers == "none")
        .filter_map(|(group, records)| Some((group.workers, median(records, CPU)?)))
        .collect();
    let mut text = format!(
        "{}\n{:>8} {:<15} {:>9} {:>9} {:>10} {:>11} {:>8} {:>8}\n",
        workload.name(),
        "workers",
        "timers",
        "wall ns",
        "CPU ns",
        "over none",
        "per s",
        "p50 us",
        "p99 us"
    );
    for (group, records) in &groups {
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        let cpu = median(records, CPU);
        let floor = floors.get(&group.workers).filter(|_| group.timers != "none");
        let over = cpu.zip(floor).map(|(cpu, floor)| cpu - floor);
        let wall = median(records, "/ns_per_op").map_or(String::new(), |ns| format!("{ns:.1}"));
        writeln!(
            text,
            "{:>8} {:<15} {wall:>9} {:>9} {:>10} {:>11} {:>8} {:>8}",
            group.workers,
            group.timers,
            cell(cpu),
            cell(over),
            cell(median(records, "/extra/per_s")),
            cell(median(records, "/extra/late_us/p50")),
            cell(median(records, "/extra/late_us/p99")),
        )
        .expect("a string takes all");
    }
    text
}

const CPU: &str = "/cpu_ns_per_op";

/// What stands in one line.
#[derive(PartialEq)]
struct Group {
    workers: u64,
    timers: String,
}

// === impl Group ===

impl Group {
    fn of(record: &Value) -> Group {
        Group {
            workers: record["threads"].as_u64().unwrap_or(0),
            timers: record["contender"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

#[test]
fn a_line_has_medians_and_the_share_over_none_on_as_many_workers() {
    let record = |timers: &str, workers: u64, cpu_ns: f64| {
        serde_json::json!({"contender": timers, "threads": workers, "ns_per_op": 1.0,
            "cpu_ns_per_op": cpu_ns, "extra": {"per_s": 3.0, "late_us": {"p50": 7.0}}})
    };
    let records = [
        record("none", 1, 10.0),
        record("tokio", 1, 50.0),
        record("none", 2, 20.0),
        record("tokio", 2, 90.0),
        record("tokio", 1, 60.0),
        record("tokio", 1, 40.0),
    ];
    let text = table(Workload::Short, &records);
    let lines: Vec<Vec<_>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert_eq!(lines[2], ["1", "none", "1.0", "10", "-", "3", "7", "-"]);
    assert_eq!(lines[3], ["1", "tokio", "1.0", "50", "40", "3", "7", "-"]);
    assert_eq!(lines[5], ["2", "tokio", "1.0", "90", "70", "3", "7", "-"]);
}
