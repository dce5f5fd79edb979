//! Why an engine was not stopped.

use std::fmt;

/// Why an engine was not stopped.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::{Engine, StopError};
///
/// let engine = Engine::new()?;
/// let (sender, answer) = mpsc::channel();
/// let same = engine.clone();
/// engine.schedule_detached(Duration::ZERO, move || drop(sender.send(same.stop().err())))?;
/// assert_eq!(answer.recv()?, Some(StopError::InsideTask));
/// assert!(engine.stop().is_ok(), "from outside it is all right");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopError {
    /// A task of the engine made the call: stopping would wait for that very task.
    InsideTask,
    /// A task of another engine or pool made the call, and a task of this engine waits for the end
    /// of that one, directly or through others: none of them would ever return.
    Circular,
    /// The engine belongs to the process that this one was forked from, and only that process can
    /// stop it.
    Forked,
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopError::InsideTask => f.write_str("an engine cannot be stopped by its own task"),
            StopError::Circular => f.write_str("a task of the engine waits for the caller to end"),
            StopError::Forked => f.write_str("the engine belongs to the parent process"),
        }
    }
}

impl std::error::Error for StopError {}
