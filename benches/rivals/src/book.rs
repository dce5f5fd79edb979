//! The file of results: for each part its machine and every run, a line for each run.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::BenchError;
use crate::host::Host;
use crate::record::Record;
use crate::sample::Sample;

/// What is kept of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) host: Host,
    pub(crate) runs: Vec<Record>,
}

/// All parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Book {
    pub(crate) parts: Vec<Kept>,
}

/// What only plots show, of one run of each contender.
const BULKY: [&str; 2] = ["late_distribution_us", "levels"];

/// Numbers are kept with so many digits.
const DIGITS: i32 = 5;

// === impl Book ===

impl Book {
    /// Reads a file of results.
    pub(crate) fn read(path: &Path) -> Result<Book, BenchError> {
        let text = fs::read_to_string(path).map_err(BenchError::in_file(path))?;
        serde_json::from_str(&text).map_err(|cause| BenchError::Line {
            path: path.to_owned(),
            line: cause.line(),
            cause,
        })
    }

    /// The same where there may be none yet.
    pub(crate) fn read_or_new(path: &Path) -> Result<Book, BenchError> {
        if path.exists() { Book::read(path) } else { Ok(Book::default()) }
    }

    /// Writes the file anew.
    pub(crate) fn write(&self, path: &Path) -> Result<(), BenchError> {
        fs::write(path, self.text()).map_err(BenchError::in_file(path))
    }

    /// Replaces a part, or adds it.
    pub(crate) fn put(&mut self, mut kept: Kept) {
        kept.slim();
        match self.parts.iter_mut().find(|part| part.name == kept.name) {
            Some(part) => *part = kept,
            None => self.parts.push(kept),
        }
    }

    /// The part of that name.
    pub(crate) fn part(&self, name: &str) -> Option<&Kept> {
        self.parts.iter().find(|part| part.name == name)
    }

    fn text(&self) -> String {
        let parts = self.parts.iter().map(|part| {
            let runs: Vec<_> = part.runs.iter().map(line).collect();
            let (name, host) = (line(&part.name), line(&part.host));
            let runs = runs.join(",\n");
            format!("{{\"name\": {name}, \"host\": {host}, \"runs\": [\n{runs}\n]}}")
        });
        let parts: Vec<_> = parts.collect();
        format!("{{\"parts\": [\n{}\n]}}\n", parts.join(",\n"))
    }
}

// === impl Kept ===

impl Kept {
    /// The runs of a contender on a number of threads.
    pub(crate) fn of<'a>(
        &'a self,
        contender: &'a str,
        threads: usize,
    ) -> impl Iterator<Item = &'a Record> {
        let is_it = move |run: &&Record| run.contender == contender && run.threads == threads;
        self.runs.iter().filter(is_it)
    }

    /// Whether each run was made at full scale.
    pub(crate) fn is_full(&self) -> bool {
        self.runs.iter().all(|run| run.number("scale").is_none_or(|scale| scale >= 1.0))
    }

    /// The least and the most runs of what is measured.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let same = |a: &Record, b: &Record| {
            (&a.contender, a.threads, a.number("variant"))
                == (&b.contender, b.threads, b.number("variant"))
        };
        let counts = self
            .runs
            .iter()
            .map(|run| self.runs.iter().filter(|other| same(run, other)).count() as f64);
        let counts = Sample::new(counts.collect());
        (counts.min() as usize, counts.max() as usize)
    }

    /// Leaves out digits that say nothing, and what is bulky of all but the last run of each.
    fn slim(&mut self) {
        for nth in 0..self.runs.len() {
            let (this, later) = self.runs[nth..].split_first_mut().expect("not empty");
            let is_last = !later
                .iter()
                .any(|run| run.contender == this.contender && run.threads == this.threads);
            this.extra.retain(|name, _| is_last || !BULKY.contains(&&**name));
            this.ns_per_op = rounded(this.ns_per_op);
            this.cpu_ns_per_op = rounded(this.cpu_ns_per_op);
            this.extra.values_mut().for_each(round);
        }
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}

fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            *value = rounded(number.as_f64().unwrap_or(0.0)).into();
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(values) => values.values_mut().for_each(round),
        _ => {}
    }
}

fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS as usize - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(contender: &str, ns: f64) -> Record {
        let extra = json!({"scale": 1.0, "levels": [1], "late_us": {"p50": 1.234_567_89}});
        Record {
            contender: contender.to_owned(),
            workload: "reset".to_owned(),
            threads: 1,
            n: 1,
            ns_per_op: ns,
            cpu_ns_per_op: ns,
            extra: extra.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn a_part_survives_its_file_and_is_replaced_as_a_whole() {
        let kept = |runs| Kept { name: "a".to_owned(), host: Host::here(), runs };
        let mut book = Book::default();
        book.put(kept(vec![run("x", 1.0), run("x", 2.0), run("y", 3.0)]));
        book.put(kept(vec![run("x", 1.234_567_89), run("x", 2.0), run("y", 3.0)]));
        let text = book.text();
        assert_eq!(serde_json::from_str::<Book>(&text).unwrap(), book, "{text}");
        assert_eq!(text.lines().count(), 7, "{text}");
        let part = book.part("a").unwrap();
        assert_eq!((part.counts(), part.is_full()), ((1, 2), true));
        assert_eq!(part.of("x", 1).count(), 2);
        let x: Vec<_> = part.of("x", 1).collect();
        assert_eq!((x[0].ns_per_op, x[0].number("late_us.p50")), (1.2346, Some(1.2346)));
        assert!(!x[0].extra.contains_key("levels") && x[1].extra.contains_key("levels"));
    }

    #[test]
    fn a_part_at_a_smaller_scale_is_not_full() {
        let mut small = run("x", 1.0);
        small.extra.insert("scale".to_owned(), 0.5.into());
        let kept = Kept { name: "a".to_owned(), host: Host::default(), runs: vec![small] };
        assert!(!kept.is_full());
    }
}
