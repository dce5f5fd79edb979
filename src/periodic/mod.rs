//! Periodic tasks, retries with backoff, and heartbeats, on an engine of [closures](crate::Engine).
//!
//! ```
//! use std::time::Duration;
//! use tickless::{Engine, ManualClock};
//! use tickless::periodic::{Heartbeat, Schedule};
//!
//! let clock = ManualClock::new();
//! let engine = Engine::builder().manual_clock(&clock).build()?;
//! let second = Duration::from_secs(1);
//!
//! // At a fixed rate: no drift.
//! let flush = engine.every(second, |_| println!("flush"))?;
//! // With a pause of ten seconds between two runs, the first at once.
//! let poll = Schedule::fixed_delay(10 * second)
//!     .starting(Duration::ZERO)
//!     .start(&engine, |run| println!("poll number {}", run.number()))?;
//! // Fires once, when nobody calls `beat` for half a minute.
//! let peer = Heartbeat::new(&engine, 30 * second, || println!("the peer is gone"))?;
//!
//! engine.advance(60 * second)?;
//! assert_eq!((flush.runs(), poll.runs()), (60, 7));
//! assert!(peer.has_fired());
//! assert!(flush.cancel() && poll.cancel());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Schedule`] says when a task runs: at a fixed rate, with a fixed delay, or at the times that
//!   a closure returns. [`Periodic`] is one handle for all runs.
//! - [`Retry`] makes attempts until one succeeds, with growing pauses in between ([`Backoff`]). The
//!   result of an attempt may be reported later, from another thread. In asynchronous code,
//!   attempts may be futures: [`Retry::run_async`].
//! - [`Heartbeat`] is a deadline that each beat postpones.
//!
//! # Common rules
//!
//! - Runs of one closure never overlap, and runs do not pile up: each periodic, retry or heartbeat
//!   waits for one timer, and arms the next one when its closure has returned.
//! - Each ends once: by itself, by being cancelled, with its engine, or by a panic of the closure
//!   that says when it goes on. A full engine refuses one that is new, and never ends one. It also
//!   ends, as [`End::Stopped`], if the engine's handler drops its task
//!   ([`Full::Drop`](crate::dispatch::Full::Drop) does): a heartbeat then never calls its closure.
//!   [`End`] says which. What its closures captured is dropped then, even if handles are kept.
//! - None keeps its engine alive. When the engine stops, those that wait for their timers end, on
//!   the thread that stops it or drops its last clone. One whose run is under way, or was handed to
//!   a pool, ends when that run is over, there.
//!   (A retry whose [`Attempt`] is under way and has no [limit of time](Retry::attempt_timeout) has
//!   no timer: it ends when the attempt is answered or dropped.) Of a periodic on an engine of
//!   other payloads, [`Engine::stop`](crate::Engine::stop) returns the payload for the next run,
//!   which keeps the closure until it is run or dropped.
//! - They allocate when they are started, and not for the runs that follow.
//! - Runs need not happen on the engine's own threads: the [handler](crate::Handler) may run the
//!   tasks elsewhere.
//! - Periodics are also for engines of other payloads: [`Schedule::start_with`].

// `armed` is a thing that repeats on an engine, built on the words in `crate::protocol`; `handle`
// is the caller's end of periodics and retries. The periodic is in `run` and `schedule`; the retry
// in `backoff`, `outcome`, `attempt`, `trying` and `retry`, that of futures in `awaiting`; the
// heartbeat in `heartbeat`.
mod armed;
mod attempt;
mod awaiting;
mod backoff;
mod handle;
mod heartbeat;
mod outcome;
mod retry;
mod run;
mod schedule;
mod trying;

use crate::error::Refused;
pub use crate::protocol::End;
pub use armed::DueRun;
pub use attempt::Attempt;
pub use backoff::{Backoff, Delays, Jitter};
pub use handle::Repeated;
pub use heartbeat::Heartbeat;
pub use outcome::Outcome;
pub use retry::{Retry, Retrying};
pub use run::Run;
pub use schedule::{Periodic, Schedule};

/// The error of starting a periodic, a retry or a heartbeat. It returns the closure that was to
/// run, or the two closures of a retry.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Run, Schedule, StartReason};
///
/// let engine = Engine::new()?;
/// let task = |run: &Run| println!("run {}", run.number());
/// let refused = Schedule::fixed_rate(Duration::ZERO).start(&engine, task).unwrap_err();
/// match refused.reason() {
///     StartReason::ZeroPeriod => {
///         let second = Duration::from_secs(1);
///         Schedule::fixed_rate(second).start(&engine, refused.into_payload())?;
///     }
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type StartError<F> = Refused<StartReason, F>;

/// Why a periodic, a retry or a heartbeat was not started.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::{Heartbeat, StartReason};
///
/// let refused = Heartbeat::new(&Engine::new()?, Duration::ZERO, || println!("silence"));
/// assert_eq!(refused.unwrap_err().reason(), StartReason::ZeroPeriod);
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartReason {
    /// The period, the delay or the timeout is zero.
    ZeroPeriod,
    /// The closure of the schedule returned no first run.
    NoRun,
    /// The engine already has as many pending timers as its `max_pending` allows.
    Full,
    /// The engine has stopped.
    Stopped,
}

// === impl StartReason ===

impl std::error::Error for StartReason {}

display! { StartReason {
    ZeroPeriod => "the period is zero",
    NoRun => "the schedule has no first run",
    Full => "as many timers as allowed are pending",
    Stopped => "the engine has stopped",
} }
