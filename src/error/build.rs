//! Why an engine was not built.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::time::GeometryError;

/// Why an engine was not built.
///
/// ```
/// use std::time::Duration;
/// use tickless::{BuildError, Engine};
///
/// match Engine::builder().tick(Duration::ZERO).build() {
///     Err(BuildError::Tick { tick }) => assert!(tick.is_zero()),
///     other => panic!("{other:?}"),
/// }
/// let error = Engine::builder().shards(0).build().expect_err("nowhere to put a timer");
/// assert_eq!(error.to_string(), "shards must be between 1 and 1024, got 0");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick is zero, or longer than 2^64 - 1 ns (584 years).
    Tick {
        /// The tick that was asked for.
        tick: Duration,
    },
    /// Slots and reach do not make a valid wheel.
    Geometry(GeometryError),
    /// No shards, or more than [`Builder::MAX_SHARDS`](crate::Builder::MAX_SHARDS).
    Shards {
        /// The number that was asked for.
        shards: usize,
    },
    /// A limit of zero pending timers, with which nothing could be scheduled.
    MaxPending,
    /// The name of the reapers' threads contains a NUL, where systems end names.
    ThreadName {
        /// The name that was asked for.
        name: String,
    },
    /// An engine with threads of its own and a manual clock: threads cannot sleep by a clock that
    /// is moved by hand.
    ManualClockWithThreads,
    /// An engine with threads of its own and a hook
    /// ([`Builder::on_earlier`](crate::Builder::on_earlier)), which is for callers.
    HookWithThreads,
    /// Could not create the boottime timerfd, or the eventfd beside it: a reaper sleeps by these if
    /// the clock counts suspended time. Only Linux has them.
    Alarm(io::Error),
    /// All 2^32 - 1 engine numbers of this process were given out.
    TooManyEngines,
    /// A reaper's thread could not be started or pinned.
    Thread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Tick { tick } => {
                write!(f, "tick must be above zero and at most 2^64 - 1 ns, got {tick:?}")
            }
            BuildError::Geometry(error) => error.fmt(f),
            BuildError::Shards { shards } => {
                let max = crate::time::MAX_SHARDS;
                write!(f, "shards must be between 1 and {max}, got {shards}")
            }
            BuildError::MaxPending => f.write_str("max_pending must be above zero"),
            BuildError::ThreadName { name } => {
                write!(f, "a thread's name must be without NUL, got {name:?}")
            }
            BuildError::ManualClockWithThreads => {
                f.write_str("an engine with a manual clock is driven by its caller")
            }
            BuildError::HookWithThreads => {
                f.write_str("only an engine that its caller drives takes a hook")
            }
            BuildError::Alarm(error) => write!(f, "no alarm for a reaper: {error}"),
            BuildError::TooManyEngines => f.write_str("too many engines in this process"),
            BuildError::Thread(error) => write!(f, "a reaper could not be started: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Geometry(error) => Some(error),
            BuildError::Alarm(error) | BuildError::Thread(error) => Some(error),
            _ => None,
        }
    }
}

impl From<GeometryError> for BuildError {
    fn from(error: GeometryError) -> BuildError {
        BuildError::Geometry(error)
    }
}
