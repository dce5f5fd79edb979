//! Delayed operations: each waits under one or more keys until it can complete, or until its
//! timeout.
//!
//! A server that may answer a request only when something else has happened (all replicas have
//! acknowledged, enough bytes have come in, a group has assembled) registers it as an
//! [`Operation`] under the keys of what it waits for. Whoever changes such a thing *checks* its
//! key, and the operations there that can complete now do. What cannot in time, expires.
//!
//! - Each operation ends exactly once: by a check, by force, by its timeout or by being cancelled,
//!   whichever comes first.
//! - When it ends, its timer and every key let go of it at once: nothing waits for a purge. (If
//!   that happens while another call is inside its `try_complete`: when that call returns.)
//! - A check is never lost: an operation that is being tried when a check comes by is tried again.
//! - Nobody waits for a callback of somebody else, and no lock is held during one.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::time::Duration;
//! use tickless::purgatory::{Operation, Purgatory};
//!
//! /// Waits until two replicas have acknowledged.
//! #[derive(Default)]
//! struct Produce {
//!     acknowledged: AtomicU32,
//! }
//!
//! impl Operation for Produce {
//!     fn try_complete(&self) -> bool {
//!         self.acknowledged.load(Ordering::Acquire) >= 2
//!     }
//!     fn on_complete(&self) {
//!         println!("answered");
//!     }
//! }
//!
//! let purgatory = Purgatory::new()?;
//! let produce = Arc::new(Produce::default());
//! let topic = "orders-0".to_owned();
//! let timeout = Duration::from_secs(30);
//! let arrival = purgatory.try_complete_else_watch(produce.clone(), [topic], timeout)?;
//! assert!(!arrival.is_completed());
//!
//! produce.acknowledged.fetch_add(1, Ordering::Release);
//! assert_eq!(purgatory.check_and_complete("orders-0"), 0);
//! produce.acknowledged.fetch_add(1, Ordering::Release);
//! assert_eq!(purgatory.check_and_complete("orders-0"), 1);
//! assert!(purgatory.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// `operation` is what users implement; `door` the purgatory itself, `ends` how callers end an
// operation in it, `view` reads it, `delayed` is a ticket. `node` is an operation with its word
// (in `crate::protocol`), `expiry` its timer's task. `lists`, `watchers`, `blocks` and `chunks`
// keep the operations under their keys.
mod arrival;
mod blocks;
mod chunks;
mod delayed;
mod door;
mod ends;
mod error;
mod expiry;
mod lists;
mod node;
mod operation;
mod places;
mod stats;
mod view;
mod watchers;

pub use crate::protocol::Decision;
pub use arrival::Arrival;
pub use delayed::Delayed;
pub use door::Purgatory;
pub use error::{WatchError, WatchReason};
pub use operation::Operation;
pub use stats::Stats;
