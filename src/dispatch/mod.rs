//! Dispatch: how due payloads reach the code that handles them.
//!
//! The reaper collects due payloads into a batch and calls one [`Handler`] with it. Pass the
//! handler to [`Builder::build_with_handler`](crate::Builder::build_with_handler), or a plain
//! closure to [`Builder::build_typed`](crate::Builder::build_typed). An engine drops its handler
//! when it has stopped.
//!
//! | handler | where payloads run | what a slow payload delays |
//! |---|---|---|
//! | [`Inline`] (the default for closures) | on the reaper | the timers of its shard, for [5 ms] |
//! | [`Pool`] | on a bounded pool of threads | no timer; if the queue is full: see [`Full`] |
//! | [`Channel`] | wherever the receivers are | no timer; if the channel is full: see [`Channel`] |
#![cfg_attr(feature = "tokio", doc = "| [`OnTokio`] | on a tokio runtime | no timer |")]
#![cfg_attr(feature = "rayon", doc = "| [`OnRayon`] | on a pool of rayon's | no timer |")]
//! | any `Fn(Batch<T>)` | on the reaper, or where it sends them | as with [`Inline`] |
//! | your own [`Handler`] | on the reaper, or where it sends them | as with [`Inline`] |
//!
//! A pool is right for tasks that are often slow: it bounds how many run at a time, and costs no
//! takeover for each. For tasks that are slow now and then, none is needed.
//!
//! [5 ms]: crate::Builder::takeover

mod batch;
#[cfg(not(any(loom, shuttle)))]
mod channel;
mod handler;
mod in_hand;
#[cfg(not(any(loom, shuttle)))]
mod monitor;
mod panics;
#[cfg(not(any(loom, shuttle)))]
#[doc(hidden)]
pub mod pool;
#[cfg(not(any(loom, shuttle)))]
mod process;
mod progress;
#[cfg(all(feature = "rayon", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "rayon")))]
mod rayon;
#[cfg(all(feature = "tokio", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
mod runtime;
#[cfg(not(any(loom, shuttle)))]
mod senders;
mod slow;
mod task;
#[cfg(not(any(loom, shuttle)))]
mod waits;

/// The part of the pool that the models test. The rest uses the system's threads.
#[cfg(any(loom, shuttle))]
pub mod pool {
    pub mod queue;
}

pub use batch::{Batch, Due};
#[cfg(not(any(loom, shuttle)))]
pub use channel::{Channel, ChannelStats, DueChannel};
pub use handler::{Handler, Inline, IntoPayload};
#[doc(hidden)]
pub use in_hand::{InHand, Line, Payloads, TakenOver};
#[cfg(not(any(loom, shuttle)))]
pub use monitor::Monitor;
#[doc(hidden)]
pub use panics::{Panics, contained, contained_or, drop_each};
#[cfg(not(any(loom, shuttle)))]
pub use pool::{
    Full, Pool, PoolBuilder, PoolError, PoolStats, ShutdownError, SubmitError, SubmitReason,
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use process::{Process, Told};
#[doc(hidden)]
pub use progress::Progress;
#[cfg(all(feature = "rayon", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "rayon")))]
pub use rayon::{OnRayon, RayonStats};
#[cfg(all(feature = "tokio", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use runtime::{OnTokio, RuntimeStats};
#[cfg(not(any(loom, shuttle)))]
pub use senders::ChannelSender;
pub use slow::SlowTask;
#[doc(hidden)]
pub use slow::{OnSlowTask, SlowRule};
pub(crate) use slow::{Sample, Stopwatch};
pub use task::Task;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use task::{Runs, ordinary};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use waits::{
    Party, Waiting, wait_for, work_for, work_to_the_end_for, works_for, works_for_any, yield_while,
};
