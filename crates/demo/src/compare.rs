//! The comparison: two runs with equal load and equal seconds, side by side.
//!
//! They run in turn in one process. The second finds memory and code warmed up by the first, which
//! favours tokio's.

use crate::run::Outcome;
use crate::words::{grouped, ms};

const HOW_TO_READ: &str = "\
How to read it: at equal requests per second less is better in every other column; CPU is that of \
the whole process, sockets included, p99 is the lateness that 1 % of the timers \
exceeded, and a wake-up is a voluntary context switch of a thread that serves timers.";

const HEADS: [&str; 7] = [
    "",
    "requests/s",
    "CPU (cores)",
    "CPU per request",
    "lateness p99",
    "wake-ups per s",
    "violations",
];

/// A table with a row for each outcome, and how to read it.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(outcomes.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("   ").trim_end();
        text.push('\n');
    }
    format!("{text}\n{HOW_TO_READ}")
}

/// The heads of the table, except the first, which is empty.
pub(crate) fn heads() -> &'static [&'static str] {
    &HEADS[1..]
}

/// The name of the engine and its figures.
pub(crate) fn row(outcome: &Outcome) -> [String; 7] {
    let unknown = || "unknown".to_owned();
    let per_request = outcome.usage.map_or_else(unknown, |usage| {
        let requests = outcome.clients.requests.max(1);
        format!("{:.1} us", usage.cpu.as_secs_f64() * 1e6 / requests as f64)
    });
    let wake_ups = outcome
        .wake_ups
        .map_or_else(unknown, |count| grouped((count as f64 / outcome.wall.as_secs_f64()) as u64));
    [
        outcome.engine.to_owned(),
        grouped(outcome.requests_per_s() as u64),
        outcome.cores().map_or_else(unknown, |cores| format!("{cores:.2}")),
        per_request,
        ms(outcome.late(0.99)),
        wake_ups,
        outcome.violations().len().to_string(),
    ]
}
