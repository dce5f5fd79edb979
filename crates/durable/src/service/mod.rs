//! The service: it keeps timers in a store, and fires those that are due.
//!
//! | file | what is there |
//! |---|---|
//! | `durable.rs` | what a user holds of it |
//! | `builder.rs`, `config.rs` | how it is configured and opened |
//! | `core.rs` | what the threads share, and firing by two clocks |
//! | `pending.rs` | the batch that is being gathered |
//! | `window.rs` | the timers that are due first |
//! | `suspects.rs` | those whose handlers may have ended a process |
//! | `reading.rs` | what is looked up in the store |
//! | `unreadable.rs` | records that cannot be read |
//! | `unseen.rs` | what others did to the store while it was read |
//! | `writer.rs` | the thread that has the store |
//! | `worker.rs` | the threads that call the handler |
//! | `firing.rs` | what a handler gets, and how it is called |
//! | `tasks.rs` | the same for handlers that are asynchronous |
//! | `owner.rs` | how all of them begin and end |
//! | `metrics.rs` | its counters for the `metrics` facade |
//! | `misfire.rs`, `numbers.rs` | what happens when a store is opened |
//! | `pauses.rs`, `pausing.rs` | timers that do not fire for now |
//! | `recurring.rs` | timers that come again |
//! | `retry.rs` | what a handler says of a timer that is not over |
//! | `by_hand.rs` | the same without threads |

mod builder;
mod by_hand;
mod cancelled;
mod config;
mod core;
mod durable;
mod firing;
#[cfg(feature = "metrics")]
mod metrics;
mod misfire;
mod numbers;
mod owner;
mod pauses;
mod pausing;
mod pending;
mod reading;
mod recurring;
mod retry;
mod shared;
mod stats;
mod suspects;
#[cfg(feature = "tokio")]
mod tasks;
mod unreadable;
mod unseen;
mod window;
mod worker;
mod writer;

pub use builder::Builder;
#[doc(hidden)]
pub use by_hand::ByHand;
pub use cancelled::Cancelled;
pub use config::Misfire;
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) use config::Share;
pub use durable::Durable;
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) use durable::bytes_of;
pub use firing::Firing;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
#[cfg(all(feature = "metrics", any(feature = "postgres", feature = "nats")))]
pub(crate) use metrics::Place;
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) use numbers::Numbers;
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) use pauses::fits;
pub use recurring::every;
pub use retry::{Limits, Retry};
pub use stats::Stats;
