//! Why a turn was not run.

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
    /// The engine is driven by threads of its own or, where a task wants to
    /// [drive] it, by another task.
    ///
    /// [drive]: https://docs.rs/tickless/latest/tickless/struct.Engine.html#method.drive
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
    /// Several engines were to be moved by a clock that this one does not have.
    OtherClock,
    /// The engine has stopped.
    Stopped,
    /// The engine belongs to the process that this one was forked from.
    Forked,
}

// === impl TurnError ===

display! { TurnError {
    Driven => "the engine is driven already, by its own threads or by a task",
    InsideTask => "a task cannot run a turn of its own engine",
    NoSuchShard { shard, shards } => "there is no shard {shard}: the engine has {shards}",
    NotManual => "only a manual clock can be advanced",
    OtherClock => "the engine has another clock",
    Stopped => "the engine has stopped",
    Forked => "the engine belongs to the parent process",
} }

impl std::error::Error for TurnError {}
