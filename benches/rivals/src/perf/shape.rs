//! The shape of a table: which runs share a row, and which numbers stand in it.

use super::quote::{full_name, spread};
use crate::book::Kept;
use crate::record::Record;
use crate::registry;
use crate::sample::{Sample, short};

/// A table: a row for each value of its keys that was measured.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) part: &'static str,
    keys: &'static [Key],
    columns: &'static [Column],
}

/// What tells rows apart.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Threads(&'static str),
    Variant(&'static str),
    Contender,
}

/// A number of a record.
#[derive(Clone, Copy)]
pub(super) struct Column {
    heading: &'static str,
    number: &'static str,
    threads: Option<usize>,
    variant: Option<u64>,
    /// What the unit of the record is divided by.
    by: f64,
    /// Whether least and most are shown.
    has_spread: bool,
    /// Whether the number is what it is beyond that of [`FLOOR`] on as many threads.
    is_over_floor: bool,
}

/// The contender that has no timers, but all else that the others have.
const FLOOR: &str = "none";

/// How a contender is called in prose.
fn label(contender: &str) -> String {
    match contender {
        "tokio-threads" => "tokio, from other threads".to_owned(),
        "tokio-alt-threads" => "tokio-alt, from other threads".to_owned(),
        "tickless-drive" => "**tickless**, `drive`".to_owned(),
        ours if ours.starts_with("tickless") => format!("**{ours}**"),
        other => other.to_owned(),
    }
}

/// Rows with bars between the cells, the first one a heading.
pub(super) fn lines(rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let Some((heading, rows)) = rows.split_first() else { return String::new() };
    let rule = "|---".repeat(heading.len());
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}|\n{rows}", line(heading))
}

// === impl Table ===

impl Table {
    /// A table that shows the part of its name.
    pub(super) const fn of(
        name: &'static str,
        keys: &'static [Key],
        columns: &'static [Column],
    ) -> Table {
        Table { name, part: name, keys, columns }
    }

    pub(super) fn rows(&self, part: &Kept) -> Vec<Vec<String>> {
        let heading = self.keys.iter().map(|key| key.heading());
        let heading = heading.chain(self.columns.iter().map(|column| column.heading));
        let mut rows = vec![heading.map(str::to_owned).collect()];
        let mut runs: Vec<&Record> = part.runs.iter().collect();
        runs.sort_by_key(|run| self.keys.iter().map(|key| key.order(run)).collect::<Vec<_>>());
        let same =
            |a: &&Record, b: &&Record| self.keys.iter().all(|key| key.order(a) == key.order(b));
        for group in runs.chunk_by(same) {
            let keys = self.keys.iter().map(|key| key.cell(group[0]));
            let floor = |run: &&Record| run.contender == FLOOR && run.threads == group[0].threads;
            let floor: Vec<_> = part.runs.iter().filter(floor).collect();
            let cells = self.columns.iter().map(|column| column.cell(group, &floor));
            rows.push(keys.chain(cells).collect());
        }
        rows
    }
}

// === impl Key ===

impl Key {
    fn heading(self) -> &'static str {
        match self {
            Key::Threads(heading) | Key::Variant(heading) => heading,
            Key::Contender => "contender",
        }
    }

    fn cell(self, run: &Record) -> String {
        match self {
            Key::Threads(_) => run.threads.to_string(),
            Key::Variant(_) => short(run.number("variant").unwrap_or(0.0)),
            Key::Contender => label(&run.contender),
        }
    }

    fn order(self, run: &Record) -> (usize, &str) {
        match self {
            Key::Threads(_) => (run.threads, ""),
            Key::Variant(_) => (run.number("variant").unwrap_or(0.0) as usize, ""),
            Key::Contender => {
                // What only other programs measure stands behind what it is a kind of.
                let name = run.contender.trim_end_matches("-drive");
                let place = registry::ALL.iter().position(|entry| entry.name == name);
                (place.unwrap_or(usize::MAX), &run.contender)
            }
        }
    }
}

// === impl Column ===

impl Column {
    pub(super) const fn of(heading: &'static str, number: &'static str) -> Column {
        Column {
            heading,
            number,
            threads: None,
            variant: None,
            by: 1.0,
            has_spread: false,
            is_over_floor: false,
        }
    }

    pub(super) const fn on(self, threads: usize) -> Column {
        Column { threads: Some(threads), ..self }
    }

    pub(super) const fn at(self, variant: u64) -> Column {
        Column { variant: Some(variant), ..self }
    }

    pub(super) const fn by(self, by: f64) -> Column {
        Column { by, ..self }
    }

    pub(super) const fn spread(self) -> Column {
        Column { has_spread: true, ..self }
    }

    pub(super) const fn over_floor(self) -> Column {
        Column { is_over_floor: true, ..self }
    }

    fn cell(&self, runs: &[&Record], floor: &[&Record]) -> String {
        let sample = self.sample(runs);
        match sample.len() {
            0 => "-".to_owned(),
            _ if self.is_over_floor => {
                let floor = self.sample(floor);
                let is_floor = runs.iter().all(|run| run.contender == FLOOR);
                if floor.len() == 0 || is_floor {
                    return "-".to_owned();
                }
                short(sample.median() - floor.median())
            }
            _ if self.has_spread => spread(&sample),
            _ => short(sample.median()),
        }
    }

    fn sample(&self, runs: &[&Record]) -> Sample<f64> {
        let runs = runs.iter().filter(|run| {
            let variant = run.number("variant").unwrap_or(0.0) as u64;
            self.threads.is_none_or(|threads| threads == run.threads)
                && self.variant.is_none_or(|wanted| wanted == variant)
        });
        let values = runs.filter_map(|run| run.number(full_name(self.number)));
        Sample::new(values.map(|value| value / self.by).collect())
    }
}
