//! Results side by side: median, least and most, and the ratio to tickless.

use std::fmt::Write;

use crate::kind::Workload;
use crate::record::Record;
use crate::registry::DEFAULT_TICK_US;
use crate::sample::Sample;

/// Whom the others are compared with, if they take part.
const BASES: [&str; 3] = ["tickless", "tickless-wheel", "tickless-purgatory"];

/// One table: one workload, one number of threads, one variant.
#[derive(Debug)]
struct Group<'a> {
    title: String,
    rows: Vec<(&'a str, Vec<&'a Record>)>,
}

/// Every table that the records fill.
pub(crate) fn tables(records: &[Record]) -> String {
    let mut text = String::new();
    for group in groups(records) {
        text.push_str(&group.render());
        text.push('\n');
    }
    text
}

fn groups(records: &[Record]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in records {
        let title = title(record);
        let at = groups.iter().position(|group| group.title == title).unwrap_or_else(|| {
            groups.push(Group { title, rows: Vec::new() });
            groups.len() - 1
        });
        let rows = &mut groups[at].rows;
        match rows.iter_mut().find(|(name, _)| *name == record.contender) {
            Some((_, records)) => records.push(record),
            None => rows.push((&record.contender, vec![record])),
        }
    }
    groups
}

fn title(record: &Record) -> String {
    let threads = if record.threads == 1 { "thread" } else { "threads" };
    let mut title = format!("{}, {} {threads}", record.workload, record.threads);
    if let Ok(workload) = Workload::named(&record.workload) {
        let variant = workload.show_variant(record.number("variant").unwrap_or(0.0) as u64);
        if !variant.is_empty() {
            let _ = write!(title, ", {variant}");
        }
    }
    let is_usual = |tick_us: &f64| [0.0, DEFAULT_TICK_US as f64].contains(tick_us);
    let tick_us = record.number("tick_us").filter(|tick_us| !is_usual(tick_us));
    if let (Some(tick_us), true) = (tick_us, record.workload != Workload::Single.name()) {
        let _ = write!(title, ", tick {tick_us} us");
    }
    title
}

// === impl Group ===

impl Group<'_> {
    fn render(&self) -> String {
        let workload = self.title.split(',').next().and_then(|name| Workload::named(name).ok());
        let headlines = workload.map_or(&[][..], Workload::headlines);
        let mut heading = vec!["contender".to_owned()];
        for cost in ["ns/op", "cpu ns/op"] {
            heading.extend([format!("{cost} (min..max)"), "ratio".to_owned()]);
        }
        heading.extend(headlines.iter().map(|(name, _)| (*name).to_owned()));
        heading.push("runs".to_owned());
        let mut lines = vec![heading];
        lines.extend(self.rows.iter().map(|row| self.row(row, headlines)));
        format!("{}\n{}", self.title, align(&lines))
    }

    fn row(&self, row: &(&str, Vec<&Record>), headlines: &[(&str, &str)]) -> Vec<String> {
        let (name, records) = row;
        let mut cells = vec![(*name).to_owned()];
        for cost in ["ns_per_op", "cpu_ns_per_op"] {
            cells.push(spread(records, cost));
            cells.push(self.ratio(records, cost));
        }
        cells.extend(headlines.iter().map(|(_, number)| middle(records, number)));
        let unsteady = records.iter().filter(|record| record.is_unsteady()).count();
        cells.push(match unsteady {
            0 => records.len().to_string(),
            _ => format!("{}, {unsteady} unsteady", records.len()),
        });
        cells
    }

    /// The median, by that of the base.
    fn ratio(&self, records: &[&Record], number: &str) -> String {
        let base = self.rows.iter().find(|(name, _)| BASES.contains(name));
        let base = base.map_or(0.0, |(_, records)| sample(records, number).median());
        if base <= 0.0 {
            "-".to_owned()
        } else {
            format!("{:.2}", sample(records, number).median() / base)
        }
    }
}

fn sample(records: &[&Record], number: &str) -> Sample<f64> {
    Sample::new(records.iter().filter_map(|record| record.number(number)).collect())
}

/// The median, if there is any.
fn middle(records: &[&Record], number: &str) -> String {
    let sample = sample(records, number);
    if sample.len() == 0 { "-".to_owned() } else { short(sample.median()) }
}

/// The median, with the least and the most where there are several.
fn spread(records: &[&Record], number: &str) -> String {
    let sample = sample(records, number);
    match sample.len() {
        0 => "-".to_owned(),
        1 => short(sample.median()),
        _ => {
            let (min, max) = (short(sample.min()), short(sample.max()));
            format!("{} ({min}..{max})", short(sample.median()))
        }
    }
}

/// About three digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Columns, the first to the left and the others to the right.
fn align(lines: &[Vec<String>]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).add_rows(lines);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Extra;

    fn record(contender: &str, threads: usize, ns_per_op: f64) -> Record {
        Record {
            contender: contender.to_owned(),
            workload: "reset".to_owned(),
            threads,
            n: 1,
            ns_per_op,
            cpu_ns_per_op: 2.0 * ns_per_op,
            extra: Extra::new(),
        }
    }

    fn words(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn medians_are_compared_with_that_of_tickless() {
        let records = [
            record("tickless", 1, 10.0),
            record("tokio", 1, 30.0),
            record("tickless", 1, 20.0),
            record("tokio", 1, 50.0),
            record("tickless", 1, 90.0),
            record("tokio", 1, 40.0),
        ];
        let text = tables(&records);
        assert!(text.starts_with("reset, 1 thread\n"), "{text}");
        let row = |name| words(text.lines().find(|line| line.contains(name)).unwrap());
        assert_eq!(row("tokio"), "tokio 40.0 (30.0..50.0) 2.00 80.0 (60.0..100) 2.00 - 3");
        assert_eq!(row("tickless"), "tickless 20.0 (10.0..90.0) 1.00 40.0 (20.0..180) 1.00 - 3");
    }

    #[test]
    fn each_number_of_threads_has_a_table_and_without_tickless_there_is_no_ratio() {
        let text = tables(&[record("tokio", 1, 3.0), record("tokio", 2, 4.0)]);
        assert!(text.contains("reset, 1 thread\n") && text.contains("reset, 2 threads\n"));
        assert_eq!(words(text.lines().nth(2).unwrap()), "tokio 3.0 - 6.0 - - 1");
    }

    #[test]
    fn runs_during_which_the_threads_moved_are_pointed_out() {
        let mut moved = record("tickless", 2, 3.0);
        moved.extra.insert("unsteady".to_owned(), true.into());
        let text = tables(&[moved, record("tickless", 2, 3.0)]);
        assert!(text.contains("2, 1 unsteady"), "{text}");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        assert_eq!(["0", "0.12", "1.2", "12.3", "123", "-1.5"].join(" "), {
            [0.0, 0.123, 1.23, 12.34, 123.4, -1.5].map(short).join(" ")
        });
    }
}
