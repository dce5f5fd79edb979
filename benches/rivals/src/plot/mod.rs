//! Figures, as SVG, from a file of records.

mod bars;
mod curves;
mod ink;
mod pick;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::BenchError;
use crate::record::Record;
use crate::workload::Workload;
use bars::Bars;
use curves::{Axis, Curve, Curves};
use pick::{by_contender, median, of_workload, thread_counts};

/// Draws whatever the file has records for; says what it drew.
pub(crate) fn draw(json: &Path, out: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let records = Record::read_all(json)?;
    fs::create_dir_all(out).map_err(|cause| BenchError::File { path: out.to_owned(), cause })?;
    let mut drawn = Vec::new();
    for (workload, number, what) in [
        (Workload::CancelHeavy, "ns_per_op", "wall time per schedule + cancel, all threads"),
        (Workload::CancelHeavy, "cpu_ns_per_op", "CPU time per schedule + cancel"),
        (Workload::Reset, "ns_per_op", "wall time per reset, all threads"),
        (Workload::Reset, "cpu_ns_per_op", "CPU time per reset"),
    ] {
        let bars = costs(&of_workload(&records, workload), number, workload, what);
        let kind = if number.starts_with("cpu") { "cpu" } else { "wall" };
        drawn.extend(bars.draw(out, &format!("{}-{kind}.svg", workload.name()))?);
    }
    drawn.extend(scale(&of_workload(&records, Workload::Scale)).draw(out, "scale.svg")?);
    let fired = of_workload(&records, Workload::FireAll);
    for threads in thread_counts(&fired) {
        let fired: Vec<_> = fired.iter().copied().filter(|r| r.threads == threads).collect();
        let lateness = lateness(&fired, threads);
        drawn.extend(lateness.draw(out, &format!("lateness-{threads}.svg"))?);
        for (level, name) in [(0, "second"), (1, "third")] {
            let cascade = cascade(&fired, threads, level, name);
            drawn.extend(cascade.draw(out, &format!("cascade-{name}-{threads}.svg"))?);
        }
    }
    Ok(drawn)
}

/// A number by contender and threads.
fn costs(records: &[&Record], number: &str, workload: Workload, what: &str) -> Bars {
    let threads = thread_counts(records);
    let rows = by_contender(records).into_iter().map(|(name, records)| {
        let values = threads.iter().map(|&threads| {
            let records: Vec<_> =
                records.iter().copied().filter(|r| r.threads == threads).collect();
            median(&records, number)
        });
        (name, values.collect())
    });
    Bars {
        title: format!("{}: {what} (ns)", workload.name()),
        legend: threads.iter().map(|&n| threads_label(n)).collect(),
        rows: rows.collect(),
    }
}

/// Cost by how many timers are pending.
fn scale(records: &[&Record]) -> Curves {
    let curves = by_contender(records).into_iter().map(|(name, records)| {
        let mut pending: Vec<_> =
            records.iter().filter_map(|record| record.number("pending")).collect();
        pending.sort_unstable_by(f64::total_cmp);
        pending.dedup();
        let points = pending.into_iter().filter_map(|pending| {
            let same: Vec<_> = records
                .iter()
                .copied()
                .filter(|record| record.number("pending") == Some(pending))
                .collect();
            Some((pending, median(&same, "ns_per_op")?))
        });
        Curve { name: name.clone(), points: points.collect(), is_second: false }
    });
    Curves {
        title: "scale: schedule + cancel with others pending, one thread".to_owned(),
        x: Axis { label: "timers pending".to_owned(), is_log: true },
        y: Axis { label: "ns".to_owned(), is_log: true },
        curves: curves.collect(),
    }
}

/// Which share of timers is how late, from the last run of each contender.
fn lateness(records: &[&Record], threads: usize) -> Curves {
    let curves = by_contender(records).into_iter().filter_map(|(name, records)| {
        let points = records.last()?.extra.get("late_distribution_us")?.as_array()?;
        let points = points.iter().filter_map(|pair| {
            // A logarithmic axis has no room for what is early.
            Some((pair.get(1)?.as_f64()?.max(10.0), 100.0 * pair.get(0)?.as_f64()?))
        });
        Some(Curve { name, points: points.collect(), is_second: false })
    });
    Curves {
        title: format!("fire-all: lateness, {}", threads_label(threads)),
        x: Axis { label: "at most so late (us; less counts as 10)".to_owned(), is_log: true },
        y: Axis { label: "timers (%)".to_owned(), is_log: false },
        curves: curves.collect(),
    }
}

/// How late timers are by where in a bucket of a level their deadline lies, from the last run of
/// each contender. Cascades happen at the left edge.
fn cascade(records: &[&Record], threads: usize, level: usize, name: &str) -> Curves {
    let mut curves = Vec::new();
    for (contender, records) in by_contender(records) {
        let level = records.last().and_then(|record| record.extra.get("levels")?.get(level));
        let Some(level) = level else { continue };
        let width_ms = level.get("width_ms").and_then(Value::as_f64).unwrap_or(0.0);
        for (quantile, is_second) in [("p50_us", false), ("p99_us", true)] {
            let share = if is_second { "p99" } else { "p50" };
            let name = format!("{contender}, {width_ms:.0} ms, {share}");
            let points = positions(level, quantile);
            curves.push(Curve { name, points, is_second });
        }
    }
    Curves {
        title: format!(
            "fire-all: lateness by position in a bucket of the {name} level, {}",
            threads_label(threads)
        ),
        x: Axis { label: "position in the bucket (%)".to_owned(), is_log: false },
        y: Axis { label: "us late (less counts as 10)".to_owned(), is_log: true },
        curves,
    }
}

/// A level's bins that have timers, at the middle of each.
fn positions(level: &Value, quantile: &str) -> Vec<(f64, f64)> {
    let array = |name: &str| level.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (late, counts) = (array(quantile), array("counts"));
    let bins = late.len() as f64;
    let points = late.iter().zip(&counts).enumerate().filter_map(|(i, (late, count))| {
        let has_timers = count.as_u64()? > 0;
        has_timers.then_some((100.0 * (i as f64 + 0.5) / bins, late.as_f64()?.max(10.0)))
    });
    points.collect()
}

fn threads_label(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(contender: &str, workload: &str, extra: &Value) -> Record {
        Record {
            contender: contender.to_owned(),
            workload: workload.to_owned(),
            threads: 1,
            n: 1,
            ns_per_op: 50.0,
            cpu_ns_per_op: 60.0,
            extra: extra.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn every_figure_that_there_are_records_for_is_drawn() {
        let level = json!({"width_ms": 32.0, "counts": [1, 0], "p50_us": [5.0, 0.0],
            "p99_us": [9.0, 0.0]});
        let late = json!({"late_distribution_us": [[0.0, -1.0], [1.0, 9.0]], "levels": [level]});
        let folder = std::env::temp_dir().join(format!("rivals-plot-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let json = folder.join("results.jsonl");
        for record in [
            record("tickless", "cancel-heavy", &json!({})),
            record("tokio", "cancel-heavy", &json!({})),
            record("tickless", "scale", &json!({"pending": 1000})),
            record("tickless", "scale", &json!({"pending": 2000})),
            record("tickless", "fire-all", &late),
        ] {
            record.append_to(&json).unwrap();
        }
        let drawn = draw(&json, &folder).unwrap();
        let names: Vec<_> =
            drawn.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "cancel-heavy-wall.svg",
                "cancel-heavy-cpu.svg",
                "scale.svg",
                "lateness-1.svg",
                "cascade-second-1.svg"
            ]
        );
        let bars = fs::read_to_string(&drawn[0]).unwrap();
        assert!(bars.starts_with("<svg") && bars.contains("tokio"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn bins_without_timers_leave_a_gap() {
        let level = json!({"counts": [1, 0, 2, 0], "p50_us": [50.0, 0.0, 0.5, 0.0]});
        assert_eq!(positions(&level, "p50_us"), [(12.5, 50.0), (62.5, 10.0)]);
    }
}
