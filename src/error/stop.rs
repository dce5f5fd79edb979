//! Why an engine was not stopped.

use std::fmt;

/// Why an engine was not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopError {
    /// A task of the engine asked: stopping would wait for that very task.
    InsideTask,
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopError::InsideTask => f.write_str("an engine cannot be stopped by its own task"),
        }
    }
}

impl std::error::Error for StopError {}
