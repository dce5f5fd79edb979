//! What can go wrong, in one line for the user.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why there is no measurement, or no figure.
#[derive(Debug)]
pub(crate) enum BenchError {
    /// The arguments make no sense.
    Usage(String),
    /// No workload has this name.
    UnknownWorkload { name: String, known: Vec<&'static str> },
    /// No contender has this name.
    UnknownContender { name: String, known: Vec<&'static str> },
    /// None of the contenders asked for can do the workload.
    NothingToDo { workload: &'static str, why: Option<&'static str> },
    /// A contender could not be set up.
    Setup { contender: &'static str, cause: String },
    /// The process that measured failed.
    Child { what: String, cause: String },
    /// It took too long and was stopped.
    TooSlow { what: String, limit: Duration },
    /// So many measurements failed, each of which was told.
    Failures(usize),
    /// A contender did not do what it was asked to.
    Wrong { what: String },
    /// A file could not be read or written.
    File { path: PathBuf, cause: io::Error },
    /// A line of a file is no record.
    Line { path: PathBuf, line: usize, cause: serde_json::Error },
    /// A document or a plot is not what the results give, or cannot be.
    Stale(String),
    /// A figure could not be drawn.
    Plot { path: PathBuf, cause: String },
}

impl BenchError {
    /// Says that `contender` could not be set up, whatever the error is.
    pub(crate) fn setup<E: fmt::Display>(contender: &'static str) -> impl Fn(E) -> BenchError {
        move |error| BenchError::Setup { contender, cause: error.to_string() }
    }

    /// Says what went wrong with the file at `path`.
    pub(crate) fn in_file(path: &Path) -> impl Fn(io::Error) -> BenchError + '_ {
        |cause| BenchError::File { path: path.to_owned(), cause }
    }

    /// The status with which the program ends.
    pub(crate) fn status(&self) -> u8 {
        match self {
            BenchError::Usage(_)
            | BenchError::UnknownWorkload { .. }
            | BenchError::UnknownContender { .. }
            | BenchError::NothingToDo { .. } => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Usage(message) => write!(f, "{message} (try --help)"),
            BenchError::UnknownWorkload { name, known } => {
                write!(f, "no workload is called `{name}`; there are: {}", known.join(", "))
            }
            BenchError::UnknownContender { name, known } => {
                write!(f, "no contender is called `{name}`; there are: {}", known.join(", "))
            }
            BenchError::NothingToDo { workload, why } => {
                write!(f, "none of these contenders can do `{workload}`; see --list")?;
                why.map_or(Ok(()), |why| write!(f, " ({why})"))
            }
            BenchError::Setup { contender, cause } => {
                write!(f, "{contender} did not start: {cause}")
            }
            BenchError::Child { what, cause } => write!(f, "{what} failed: {cause}"),
            BenchError::TooSlow { what, limit } => {
                write!(f, "{what} was stopped after {} s; see --limit-s", limit.as_secs())
            }
            BenchError::Failures(1) => f.write_str("a measurement failed"),
            BenchError::Failures(count) => write!(f, "{count} measurements failed"),
            BenchError::Wrong { what } => write!(f, "wrong: {what}"),
            BenchError::File { path, cause } => write!(f, "{}: {cause}", path.display()),
            BenchError::Line { path, line, cause } => {
                write!(f, "{}:{line}: no record: {cause}", path.display())
            }
            BenchError::Stale(what) => f.write_str(what),
            BenchError::Plot { path, cause } => write!(f, "{}: not drawn: {cause}", path.display()),
        }
    }
}

impl std::error::Error for BenchError {}
