//! Dispatch: how due payloads reach the code that handles them.
//!
//! The reaper collects due payloads into a batch and calls one [`Handler`] with it. Pass the
//! handler to [`Builder::build_with_handler`](crate::Builder::build_with_handler), or a plain
//! closure to [`Builder::build_typed`](crate::Builder::build_typed). An engine drops its handler
//! when it has stopped.
//!
//! | handler | where payloads run | what a slow payload delays |
//! |---|---|---|
//! | [`Inline`] (the default for closures) | on the reaper | timers of its thread, for [5 ms] |
//! | [`Pool`] | on a bounded pool of threads | no timer; if the queue is full: see [`Full`] |
//! | [`Channel`] | wherever the receivers are | no timer; if the channel is full: see [`Channel`] |
#![cfg_attr(feature = "tokio", doc = "| [`OnTokio`] | on a tokio runtime | no timer |")]
#![cfg_attr(feature = "rayon", doc = "| [`OnRayon`] | on a pool of rayon's | no timer |")]
//! | any `Fn(Batch<T>)` | on the reaper, or where it sends them | as with [`Inline`] |
//! | your own [`Handler`] | on the reaper, or where it sends them | as with [`Inline`] |
//!
//! What is the engine's own, such as the wakes of futures, never passes through a handler: see
//! [`Handler`].
//!
//! A pool is right for tasks that are often slow: it bounds how many run at a time, and costs no
//! takeover for each. For tasks that are slow now and then, none is needed.
//!
//! [5 ms]: crate::Builder::takeover

mod channel;
pub(crate) mod inside;
mod monitor;
mod pool;
#[cfg(feature = "rayon")]
mod rayon;
#[cfg(feature = "tokio")]
mod runtime;
mod senders;

pub(crate) use crate::os::{ForkHandler, Process};
pub use channel::{Channel, ChannelStats, DueChannel};
pub(crate) use inside::{
    Party, work_for, work_to_the_end_for, works_for, works_for_any, yield_while,
};
pub use monitor::Monitor;
pub use pool::{
    Full, Pool, PoolBuilder, PoolError, PoolStats, ShutdownError, SubmitError, SubmitReason,
};
#[cfg(feature = "rayon")]
pub use rayon::{OnRayon, RayonStats};
#[cfg(feature = "tokio")]
pub use runtime::{OnTokio, RuntimeStats};
pub use senders::ChannelSender;

#[doc(inline)]
pub use tickless_core::dispatch::{Batch, Due, Handler, Inline, IntoPayload, Task};
pub(crate) use tickless_core::dispatch::{
    InHand, Kind, Own, Panics, Progress, Runs, contained, drop_each,
};
