//! Errors that return what was refused, with the reason; and why a turn was not run.
//!
//! *Owner*: the owner of the error. A shared reference gives no access to the payload.
//!
//! *Invariants*: no function makes a `&T` from a `&Refused<R, T>`, and no trait that would is
//! implemented.
//!
//! *Orderings*: none; nothing of `T` is read through a shared reference.
//!
//! *Tested by*: `tests/oracles/errors.rs`, which shares every error that carries a payload.

use std::error::Error;
use std::fmt;
use std::io;

/// An error that returns what an operation has refused: a reason, and the payload.
///
/// With `?` it converts into `Box<dyn Error + Send + Sync>` and the like, whatever the payload is:
/// it is `Sync` although payloads need not be.
///
/// [`ScheduleError`] and the errors of the other modules with payloads are names of it.
pub struct Refused<R, T> {
    reason: R,
    payload: T,
}

/// Why a timer was not scheduled, together with its payload.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ScheduleReason};
///
/// let engine = Engine::new()?;
/// engine.stop()?;
/// let refused = engine.schedule(Duration::from_secs(1), || println!("late")).unwrap_err();
/// match refused.reason() {
///     ScheduleReason::Stopped => refused.into_payload().run(),
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub type ScheduleError<T> = Refused<ScheduleReason, T>;

/// Why a timer was not scheduled. It converts into an [`io::Error`] of the kind `Other`.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ScheduleReason};
///
/// let engine = Engine::builder().max_pending(1).build()?;
/// let first = engine.schedule(Duration::from_secs(60), || println!("due"))?;
/// let refused = engine.schedule(Duration::from_secs(60), || println!("due too"));
/// assert_eq!(refused.unwrap_err().reason(), ScheduleReason::Full);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduleReason {
    /// As many timers are pending as `max_pending` allows.
    Full,
    /// The engine has stopped.
    Stopped,
    /// Only for what awaits a timer, such as a [`Sleep`]: the calling thread
    /// runs a task of the engine, and as many tasks as the engine has [spare
    /// threads] await its timers already, or are stuck. If this one waited
    /// too, no thread might be left to fire the timer. (Without takeovers,
    /// there are no spare threads.) Or it runs a callback that tells of a stuck
    /// task or of a thread's begin, and takes no shard over meanwhile.
    ///
    /// [`Sleep`]: https://docs.rs/tickless/latest/tickless/future/struct.Sleep.html
    /// [spare threads]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.spares
    Circular,
    /// Only for what awaits a timer: the engine was built on a tokio runtime
    /// (`Builder::build_on_tokio`), and has stopped because that has shut
    /// down, or it is gone, with its last clone. Each runtime needs an engine
    /// of its own, as code that names none has (`Engine::of_runtime`).
    RuntimeEnded,
    /// Only for what awaits a timer, in a build with debug assertions: the
    /// time of the tokio runtime that polls it is paused, and the engine's is
    /// not. An engine that was built on that runtime
    /// (`Builder::build_on_tokio`) follows its time.
    RuntimePaused,
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

// SAFETY: a shared reference gives no access to the payload, so sharing it between threads shares
// nothing. It moves to another thread only where the error is `Send`, for which `T` has to be.
unsafe impl<R: Sync, T> Sync for Refused<R, T> {}

// === impl Refused ===

impl<R: Copy, T> Refused<R, T> {
    #[doc(hidden)]
    #[inline]
    pub fn new(reason: R, payload: T) -> Refused<R, T> {
        Refused { reason, payload }
    }

    /// Returns the reason.
    pub fn reason(&self) -> R {
        self.reason
    }

    /// Returns the payload.
    pub fn into_payload(self) -> T {
        self.payload
    }

    /// Maps the payload with `f`, and keeps the reason.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Refused<R, U> {
        Refused::new(self.reason, f(self.payload))
    }
}

debug! { impl[R: fmt::Debug, T] Refused[R, T] { reason = |this| this.reason } }

impl<R: fmt::Display, T> fmt::Display for Refused<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<R: fmt::Debug + fmt::Display, T> Error for Refused<R, T> {}

// === impl ScheduleError ===

impl<T> ScheduleError<T> {
    #[doc(hidden)]
    #[inline]
    pub fn full(payload: T) -> ScheduleError<T> {
        Refused::new(ScheduleReason::Full, payload)
    }

    #[doc(hidden)]
    #[inline]
    pub fn stopped(payload: T) -> ScheduleError<T> {
        Refused::new(ScheduleReason::Stopped, payload)
    }

    /// Whether the engine was full. There is room again once timers have fired or were cancelled.
    pub fn is_full(&self) -> bool {
        self.reason == ScheduleReason::Full
    }

    /// Whether the engine had stopped, which is for good.
    pub fn is_stopped(&self) -> bool {
        self.reason == ScheduleReason::Stopped
    }
}

// === impl ScheduleReason ===

display! { ScheduleReason {
    Full => "as many timers as allowed are pending",
    Stopped => "the engine has stopped",
    Circular => "no spare thread would fire the timer, since this is a task of the engine",
    RuntimeEnded => "the engine ended with its tokio runtime: build one on each runtime",
    RuntimePaused => "the runtime's time is paused, and not the engine's: use `build_on_tokio`",
} }

impl Error for ScheduleReason {}

impl From<ScheduleReason> for io::Error {
    fn from(reason: ScheduleReason) -> io::Error {
        io::Error::other(reason)
    }
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

impl Error for TurnError {}
