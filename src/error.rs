//! Errors: one type per operation, which returns what was passed in.

use std::io;
use std::time::Duration;

use crate::time::{GeometryError, MAX_SHARDS};

#[doc(inline)]
pub use tickless_core::error::{Refused, ScheduleError, ScheduleReason, TurnError};

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
    /// No threads that serve shards, or fewer at most than at least.
    Reapers {
        /// The least number that was asked for.
        min: usize,
        /// The greatest.
        max: usize,
    },
    /// A limit of zero pending timers, with which nothing could be scheduled.
    MaxPending,
    /// A share of a core that is not between 0 and 1.
    Share {
        /// The share that was asked for.
        share: f64,
    },
    /// The name of the reapers' threads contains a NUL, where systems end names.
    ThreadName {
        /// The name that was asked for.
        name: String,
    },
    /// An engine with threads of its own, or on a runtime, and a manual clock: these cannot sleep
    /// by a clock that is moved by hand.
    ManualClockWithThreads,
    /// An engine with threads of its own and a hook
    /// ([`Builder::on_earlier`](crate::Builder::on_earlier)), which is for callers.
    HookWithThreads,
    /// Could not create the boottime timerfd, or the eventfd or the epoll instance beside it: a
    /// reaper sleeps by these if the clock counts suspended time. Only Linux has them.
    Alarm(io::Error),
    /// An engine was to be built on a tokio runtime, and none is current.
    NoRuntime,
    /// An engine was to be built on a tokio runtime that has no timers, where the engine cannot
    /// wait otherwise: it has no reactor either, its time is paused, or no descriptor can be had.
    RuntimeWithoutTimers,
    /// All 2^31 - 2 engine numbers of this process were given out.
    TooManyEngines,
    /// A reaper's thread could not be started or pinned. Where the system pins no threads at all,
    /// the kind of the error is `Unsupported`.
    Thread(io::Error),
}

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

/// Why an engine did not become the process's own, or its runtime's: see
/// [`SetGlobalError`](crate::SetGlobalError).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GlobalReason {
    /// The process has its own engine already: it was set before, or something has used it.
    InUse,
    /// The engine belongs to the process that this one was forked from.
    Forked,
    /// A tokio runtime serves the engine, which ends with it. The process may have more runtimes,
    /// each of which has an engine of its own: see
    #[cfg_attr(feature = "tokio", doc = "[`enter_runtime`](crate::Engine::enter_runtime).")]
    #[cfg_attr(not(feature = "tokio"), doc = "the feature `tokio`.")]
    OfRuntime,
    /// The runtime has its own engine already: one has entered it before, or something has used it.
    RuntimeInUse,
    /// An engine was to be that of a tokio runtime, and none is current.
    NoRuntime,
}

/// Why a timer was not moved.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock, ResetError};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let mut save = engine.schedule(second, || println!("saved"))?;
/// assert_eq!(save.reset(2 * second), Ok(()), "somebody types: save later");
/// engine.advance(2 * second)?;
/// // It was saved meanwhile, so later typing needs a timer of its own.
/// match save.reset(second) {
///     Ok(()) => println!("moved"),
///     Err(ResetError::TooLate) => save = engine.schedule(second, || println!("saved again"))?,
///     Err(error) => return Err(error.into()),
/// }
/// assert!(save.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResetError {
    /// The timer has fired: a reaper has collected its payload. The payload was handed over, or is
    /// about to be, unless a stop comes first and returns it. Of a scope or a waitable: or the
    /// timer was cancelled.
    TooLate,
    /// The engine has stopped. The stop returned the payload, or dropped it if the last clone was
    /// dropped. Or the payload is still in the handle, because the stop came while the timer was
    /// being moved, or because the engine belongs to the parent process: [`Handle::take`] then
    /// returns it, once.
    ///
    /// [`Handle::take`]: crate::Handle::take
    Stopped,
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopError {
    /// A task of the engine made the call, or a destructor of a thread-local on one of its threads:
    /// stopping would wait for that very task or thread.
    InsideTask,
    /// The engine belongs to the process that this one was forked from, and only that process can
    /// stop it.
    Forked,
}

// === impl BuildError ===

display! { BuildError {
    Tick { tick } => "tick must be above zero and at most 2^64 - 1 ns, got {tick:?}",
    Geometry(error) => "{error}",
    Shards { shards } => "shards must be between 1 and {MAX_SHARDS}, got {shards}",
    Reapers { min, max } => "reapers must be at least one and at most as many, got {min} to {max}",
    MaxPending => "max_pending must be above zero",
    Share { share } => "a share of a core must be between 0 and 1, got {share}",
    ThreadName { name } => "a thread's name must be without NUL, got {name:?}",
    ManualClockWithThreads => "an engine with a manual clock is driven by its caller",
    HookWithThreads => "only an engine that its caller drives takes a hook",
    Alarm(error) => "no alarm for a reaper: {error}",
    NoRuntime => "no tokio runtime is current here",
    RuntimeWithoutTimers => "the tokio runtime has no timers: see its enable_time or enable_all",
    TooManyEngines => "too many engines in this process",
    Thread(error) => "a reaper could not be started: {error}",
} }

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Geometry(error) => Some(error),
            BuildError::Alarm(error) | BuildError::Thread(error) => Some(error),
            _ => None,
        }
    }
}

// === impl BindError, GlobalReason, ResetError, StopError ===

display! { BindError {
    NoSuchShard { shard, shards } => "there is no shard {shard}: the engine has {shards}",
    ThreadEnds => "a thread that ends is not bound any more",
    Forked => "the engine belongs to the parent process",
} }

impl std::error::Error for BindError {}

display! { GlobalReason {
    InUse => "the process has an engine of its own already",
    Forked => "the engine belongs to the parent process",
    OfRuntime => "the engine ends with its tokio runtime: let it `enter_runtime` there instead",
    RuntimeInUse => "the tokio runtime has an engine of its own already",
    NoRuntime => "no tokio runtime is current here",
} }

impl std::error::Error for GlobalReason {}

display! { ResetError {
    TooLate => "the timer has fired already",
    Stopped => "the engine has stopped",
} }

impl std::error::Error for ResetError {}

display! { StopError {
    InsideTask => "an engine cannot be stopped by its own task",
    Forked => "the engine belongs to the parent process",
} }

impl std::error::Error for StopError {}
