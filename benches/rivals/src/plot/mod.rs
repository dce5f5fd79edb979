//! Figures, as SVG, from what is kept of measurements. Each is CPU time beside CPU time, or
//! lateness.

mod bars;
mod curves;
mod ink;
mod pick;

use serde_json::Value;

use crate::book::Book;
use crate::error::BenchError;
use crate::record::Record;
use bars::Bars;
use curves::{Axis, Curve, Curves};
use pick::{by_contender, median, thread_counts};

/// CPU time by contender and threads: the part, and what an operation is.
const COSTS: [(&str, &str); 5] = [
    ("cancel-heavy", "schedule + cancel"),
    ("reset", "reset"),
    ("reset-earlier", "reset, half of them to an earlier time"),
    ("service", "call of a busy server"),
    ("fire-all", "timer that fires"),
];

/// Operations per second by threads or workers: the part, the file, its title, and what is counted.
const RATES: [(&str, &str, &str, [&str; 2]); 2] = [
    (
        "cores-pair",
        "cores.svg",
        "cancel-heavy on 16 processors: million pairs per second",
        ["threads", "million schedule + cancel per second, all threads"],
    ),
    (
        "cores-http",
        "http.svg",
        "an HTTP server, 1,024 connections: million requests per second",
        ["workers", "million requests per second"],
    ),
];

/// Whatever there are results for: names and texts of the figures.
pub(crate) fn draw(book: &Book) -> Result<Vec<(String, String)>, BenchError> {
    let records = |part| -> Vec<&Record> {
        book.part(part).map_or_else(Vec::new, |kept| kept.runs.iter().collect())
    };
    let mut drawn = Vec::new();
    let mut put = |name: String, text: Option<String>| {
        drawn.extend(text.map(|text| (name, text)));
    };
    for (part, what) in COSTS {
        let name = format!("{part}-cpu.svg");
        put(name.clone(), costs(&records(part), part, what).draw(&name)?);
    }
    put("scale.svg".to_owned(), scale(&records("scale")).draw("scale.svg")?);
    for (part, file, title, what) in RATES {
        put(file.to_owned(), rates(&records(part), title, what).draw(file)?);
    }
    let fired = records("fire-all");
    put("lateness.svg".to_owned(), lateness(&fired).draw("lateness.svg")?);
    for (level, name) in [(0, "second"), (1, "third")] {
        let file = format!("cascade-{name}.svg");
        put(file.clone(), cascade(&fired, level, name).draw(&file)?);
    }
    Ok(drawn)
}

/// CPU time by contender and threads.
fn costs(records: &[&Record], part: &str, what: &str) -> Bars {
    let threads = thread_counts(records);
    let rows = by_contender(records).into_iter().map(|(name, records)| {
        let values = threads.iter().map(|&threads| {
            let records: Vec<_> =
                records.iter().copied().filter(|r| r.threads == threads).collect();
            median(&records, "cpu_ns_per_op")
        });
        (name, values.collect())
    });
    Bars {
        title: format!("{part}: CPU time per {what} (ns, median)"),
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
            Some((pending, median(&same, "cpu_ns_per_op")?))
        });
        let points = points.collect();
        Curve { contender: name.clone(), name, points, is_second: false }
    });
    Curves {
        title: "scale: CPU time per schedule + cancel with others pending, one thread".to_owned(),
        x: Axis { label: "timers pending".to_owned(), is_log: true },
        y: Axis { label: "CPU ns".to_owned(), is_log: true },
        curves: curves.collect(),
    }
}

/// How many operations all threads make, by their number.
fn rates(records: &[&Record], title: &str, [x, y]: [&str; 2]) -> Curves {
    let curves = by_contender(records).into_iter().map(|(name, records)| {
        let points = thread_counts(&records).into_iter().filter_map(|threads| {
            let same: Vec<_> = records.iter().copied().filter(|r| r.threads == threads).collect();
            Some((threads as f64, 1e3 / median(&same, "ns_per_op")?))
        });
        let points = points.collect();
        Curve { contender: name.clone(), name, points, is_second: false }
    });
    Curves {
        title: title.to_owned(),
        x: Axis { label: x.to_owned(), is_log: true },
        y: Axis { label: y.to_owned(), is_log: true },
        curves: curves.collect(),
    }
}

/// Which share of timers is how late, from the last run of each contender.
fn lateness(records: &[&Record]) -> Curves {
    let curves = by_contender(records).into_iter().filter_map(|(name, records)| {
        let points = records.last()?.extra.get("late_distribution_us")?.as_array()?;
        let points = points.iter().filter_map(|pair| {
            // A logarithmic axis has no room for what is early.
            Some((pair.get(1)?.as_f64()?.max(10.0), 100.0 * pair.get(0)?.as_f64()?))
        });
        let points = points.collect();
        Some(Curve { contender: name.clone(), name, points, is_second: false })
    });
    Curves {
        title: "fire-all: lateness of the last run".to_owned(),
        x: Axis { label: "at most so late (us; less counts as 10)".to_owned(), is_log: true },
        y: Axis { label: "timers (%)".to_owned(), is_log: false },
        curves: curves.collect(),
    }
}

/// How late timers are by where in a bucket of a level their deadline lies, from the last run of
/// each contender. Cascades happen at the left edge.
fn cascade(records: &[&Record], level: usize, name: &str) -> Curves {
    let mut curves = Vec::new();
    for (contender, records) in by_contender(records) {
        let level = records.last().and_then(|record| record.extra.get("levels")?.get(level));
        let Some(level) = level else { continue };
        let width_ms = level.get("width_ms").and_then(Value::as_f64).unwrap_or(0.0);
        for (quantile, is_second) in [("p50_us", false), ("p99_us", true)] {
            let share = if is_second { "p99" } else { "p50" };
            let name = format!("{contender}, {width_ms:.0} ms, {share}");
            let points = positions(level, quantile);
            curves.push(Curve { contender: contender.clone(), name, points, is_second });
        }
    }
    Curves {
        title: format!("fire-all: lateness by position in a bucket of the {name} level"),
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
    use crate::book::Kept;
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
        let mut book = Book::default();
        let parts = [
            ("cancel-heavy", vec![json!({}), json!({})]),
            ("scale", vec![json!({"pending": 1000}), json!({"pending": 2000})]),
            ("fire-all", vec![late]),
            ("cores-http", vec![json!({}), json!({})]),
        ];
        for (name, extras) in parts {
            let contenders = ["tickless", "tokio"];
            let runs = extras.iter().zip(contenders).map(|(extra, who)| record(who, name, extra));
            let runs = runs.collect();
            book.put(Kept { name: name.to_owned(), runs, ..Kept::default() });
        }
        let drawn = draw(&book).unwrap();
        let names: Vec<_> = drawn.iter().map(|(name, _)| &**name).collect();
        let wanted = [
            "cancel-heavy-cpu.svg",
            "fire-all-cpu.svg",
            "scale.svg",
            "http.svg",
            "lateness.svg",
            "cascade-second.svg",
        ];
        assert_eq!(names, wanted);
        let bars = &drawn[0].1;
        assert!(bars.starts_with("<svg") && bars.contains("tokio"));
        assert_eq!(draw(&book).unwrap(), drawn);
    }

    #[test]
    fn bins_without_timers_leave_a_gap() {
        let level = json!({"counts": [1, 0, 2, 0], "p50_us": [50.0, 0.0, 0.5, 0.0]});
        assert_eq!(positions(&level, "p50_us"), [(12.5, 50.0), (62.5, 10.0)]);
    }
}
