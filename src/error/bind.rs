//! Why a thread was not bound to a shard.

use std::fmt;

/// Why a thread could not be bound to a shard of an engine.
///
/// ```
/// use tickless::{BindError, Engine};
///
/// let engine = Engine::builder().shards(2).build()?;
/// assert_eq!(engine.bind_thread(2), Err(BindError::NoSuchShard { shard: 2, shards: 2 }));
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// The engine has no such shard.
    NoSuchShard {
        /// The shard that was asked for.
        shard: usize,
        /// The number of shards.
        shards: usize,
    },
    /// The thread is ending and cannot remember the shard: the call comes from the drop of a
    /// thread-local value.
    ThreadEnds,
    /// The engine belongs to the process that this one was forked from.
    Forked,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BindError::NoSuchShard { shard, shards } => {
                write!(f, "there is no shard {shard}: the engine has {shards}")
            }
            BindError::ThreadEnds => f.write_str("a thread that ends is not bound any more"),
            BindError::Forked => f.write_str("the engine belongs to the parent process"),
        }
    }
}

impl std::error::Error for BindError {}
