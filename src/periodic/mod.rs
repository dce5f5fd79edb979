//! What happens time and again: periodic tasks, retries with backoff, heartbeats. A door to the
//! engine for [closures](crate::Engine).
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
//! - [`Schedule`] says when a task runs: at a fixed rate, with a fixed delay, or as a closure says.
//!   Its [`Periodic`] is one handle for all runs.
//! - [`Retry`] makes an attempt until one succeeds, with growing pauses in between ([`Backoff`]).
//!   An attempt may be answered later, from another thread.
//! - [`Heartbeat`] is a deadline that each beat pushes out.
//!
//! # What all three keep to
//!
//! - No closure of theirs runs twice at a time, and nothing piles up: each waits for one timer, and
//!   arms the next when what it ran has returned.
//! - They end once: by themselves, by being cancelled, with their engine, or where it is full when
//!   they are to be armed again; [`End`] says which. What they captured is dropped then, also where
//!   handles are kept.
//! - They do not keep their engine alive. When it stops they end; the tasks that
//!   [`Engine::stop`](crate::Engine::stop) returns are theirs too, and hold them until dropped.
//! - They allocate when they are started, and not for what follows.
//! - Nothing assumes that runs happen on the engine's own threads: what its
//!   [handler](crate::Handler) runs elsewhere is in order too.

// `armed` is what repeats on an engine, over the words in `crate::protocol`. `schedule`, `handle`,
// `run` and `every` are the periodic; `backoff`, `retry`, `retrying`, `trying`, `attempt` and
// `outcome` the retry; `heartbeat` is the heartbeat.
mod armed;
mod attempt;
mod backoff;
mod error;
mod every;
mod handle;
mod heartbeat;
mod outcome;
mod retry;
mod retrying;
mod run;
mod schedule;
mod trying;

pub use crate::protocol::End;
pub use attempt::Attempt;
pub use backoff::{Backoff, Delays, Jitter};
pub use error::{StartError, StartReason};
pub use handle::{Periodic, PeriodicGuard};
pub use heartbeat::Heartbeat;
pub use outcome::Outcome;
pub use retry::Retry;
pub use retrying::{RetryGuard, Retrying};
pub use run::Run;
pub use schedule::Schedule;
