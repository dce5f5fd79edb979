//! Why a turn was not run.

use std::fmt;

/// Why the caller could not run a turn of an engine.
///
/// ```
/// use tickless::{Driver, Engine, TurnError};
///
/// let engine = Engine::builder().driver(Driver::Caller).shards(2).build()?;
/// assert_eq!(engine.turn(2), Err(TurnError::NoSuchShard { shard: 2, shards: 2 }));
/// let engine = Engine::new()?;
/// assert_eq!(engine.turn(0), Err(TurnError::Driven), "its threads do that");
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnError {
    /// The engine is driven by threads of its own.
    Driven,
    /// A task of the engine made the call, and the turn that runs this task is not over.
    InsideTask,
    /// The engine has no such shard.
    NoSuchShard {
        /// The shard that was asked for.
        shard: usize,
        /// The number of shards.
        shards: usize,
    },
    /// Time was to be moved, but the engine's clock is not a manual one.
    NotManual,
    /// The engine has stopped.
    Stopped,
    /// The engine belongs to the process that this one was forked from.
    Forked,
}

impl fmt::Display for TurnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            TurnError::Driven => f.write_str("the engine is driven by threads of its own"),
            TurnError::InsideTask => f.write_str("a task cannot run a turn of its own engine"),
            TurnError::NoSuchShard { shard, shards } => {
                write!(f, "there is no shard {shard}: the engine has {shards}")
            }
            TurnError::NotManual => f.write_str("only a manual clock can be advanced"),
            TurnError::Stopped => f.write_str("the engine has stopped"),
            TurnError::Forked => f.write_str("the engine belongs to the parent process"),
        }
    }
}

impl std::error::Error for TurnError {}
