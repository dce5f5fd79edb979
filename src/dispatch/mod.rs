//! Dispatch: what happens to payloads that are due.
//!
//! The reaper collects a batch and hands it to one [`Handler`], which is given to
//! [`Builder::build_with_handler`](crate::Builder::build_with_handler) for closures, or to
//! [`Builder::build_typed`](crate::Builder::build_typed). An engine lets go of its handler when it
//! has stopped.
//!
//! | handler | where payloads run | what a slow one holds up |
//! |---|---|---|
//! | [`Inline`] (the default for closures) | on the reaper | the timers of its shard |
//! | [`Pool`] | on a bounded pool of threads | no timer; if the queue is full: see [`Full`] |
//! | [`Channel`] | wherever the channel ends | as it is chosen there |
#![cfg_attr(feature = "tokio", doc = "| [`OnTokio`] | on a tokio runtime | no timer |")]
//! | any `Fn(Batch<T>)` | on the reaper, or as it likes | the timers of its shard |
//! | your own [`Handler`] | on the reaper, or as it likes | the timers of its shard |
//!
//! In here: `batch` is what a handler is given (`due_items`: with deadlines), `handler` the trait,
//! `task` a closure; `pool`, `channel` and `runtime` hand over to other threads, `monitor` reads
//! what they counted; `slow` finds out which payloads take long. `contained` ends panics, `panics`
//! puts one off; `yielding` and `waits` keep threads from waiting for each other; `process` knows a
//! process from its children.

mod batch;
#[cfg(not(any(loom, shuttle)))]
mod channel;
mod contained;
#[cfg(not(any(loom, shuttle)))]
mod due_items;
mod handler;
#[cfg(not(any(loom, shuttle)))]
mod monitor;
#[cfg(not(any(loom, shuttle)))]
mod panics;
mod payload;
#[cfg(not(any(loom, shuttle)))]
#[doc(hidden)]
pub mod pool;
#[cfg(not(any(loom, shuttle)))]
mod process;
#[cfg(all(feature = "tokio", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
mod runtime;
mod slow;
mod task;
#[cfg(not(any(loom, shuttle)))]
mod waits;
#[cfg(not(any(loom, shuttle)))]
mod yielding;

/// Of the pool, what the models are about: the rest stands on threads of the system.
#[cfg(any(loom, shuttle))]
pub mod pool {
    pub mod queue;
}

#[doc(hidden)]
pub use batch::Queue;
pub use batch::{Batch, Due};
#[cfg(not(any(loom, shuttle)))]
pub use channel::{Channel, ChannelStats, DueChannel};
#[doc(hidden)]
pub use contained::{contained, contained_or, drop_each};
pub use handler::{Handler, Inline};
#[cfg(not(any(loom, shuttle)))]
pub use monitor::Monitor;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use panics::Panics;
pub use payload::IntoPayload;
#[cfg(not(any(loom, shuttle)))]
pub use pool::{
    Full, Pool, PoolBuilder, PoolError, PoolStats, ShutdownError, SubmitError, SubmitReason,
};
#[cfg(all(feature = "metrics", not(any(loom, shuttle))))]
pub(crate) use process::Process;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use process::Told;
#[cfg(all(feature = "tokio", not(any(loom, shuttle))))]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use runtime::{OnTokio, RuntimeStats};
pub use slow::SlowTask;
#[doc(hidden)]
pub use slow::{OnSlowTask, SlowRule};
pub(crate) use slow::{Sample, Stopwatch};
pub use task::Task;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use waits::{Party, wait_for, work_for, works_for};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use yielding::yield_while;
