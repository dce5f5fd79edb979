//! One line of results.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::BenchError;

/// Whatever a workload has to say beyond the common numbers.
pub(crate) type Extra = Map<String, Value>;

/// What came out of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) contender: String,
    pub(crate) workload: String,
    pub(crate) threads: usize,
    /// Operations of all threads.
    pub(crate) n: u64,
    /// Wall time by operations of all threads.
    pub(crate) ns_per_op: f64,
    /// User and system time of the whole process by operations.
    pub(crate) cpu_ns_per_op: f64,
    pub(crate) extra: Extra,
}

// === impl Record ===

impl Record {
    /// A number among the extras; nested names are joined with dots.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        if name == "ns_per_op" {
            return Some(self.ns_per_op);
        }
        if name == "cpu_ns_per_op" {
            return Some(self.cpu_ns_per_op);
        }
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        let mut value = self.extra.get(first)?;
        for part in rest.split('.').filter(|part| !part.is_empty()) {
            value = value.get(part)?;
        }
        value.as_f64()
    }

    /// Whether the placement of the threads changed meanwhile.
    pub(crate) fn is_unsteady(&self) -> bool {
        self.extra.get("unsteady").and_then(Value::as_bool).unwrap_or(false)
    }

    /// Adds the record to a file of such lines.
    pub(crate) fn append_to(&self, path: &Path) -> Result<(), BenchError> {
        let line = serde_json::to_string(self).expect("a record is plain data");
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}"))
            .map_err(|cause| BenchError::File { path: path.to_owned(), cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> Record {
        let extra = json!({"fired": 3, "late_us": {"p50": 1.5}, "unsteady": true});
        Record {
            contender: "a".to_owned(),
            workload: "b".to_owned(),
            threads: 2,
            n: 3,
            ns_per_op: 4.5,
            cpu_ns_per_op: 6.0,
            extra: extra.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn a_record_survives_its_line() {
        let line = serde_json::to_string(&record()).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record());
    }

    #[test]
    fn numbers_are_found_by_name() {
        assert_eq!(record().number("ns_per_op"), Some(4.5));
        assert_eq!(record().number("fired"), Some(3.0));
        assert_eq!(record().number("late_us.p50"), Some(1.5));
        assert_eq!(record().number("late_us.p99"), None);
        assert!(record().is_unsteady());
    }

    #[test]
    fn a_file_grows_by_a_line() {
        let path = std::env::temp_dir().join(format!("rivals-record-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        record().append_to(&path).unwrap();
        record().append_to(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Record>(line).unwrap());
        assert_eq!(lines.collect::<Vec<_>>(), [record(), record()]);
        std::fs::remove_file(&path).unwrap();
    }
}
