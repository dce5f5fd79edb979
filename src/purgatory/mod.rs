//! Delayed operations: each waits under one or more keys until it can complete, or until its
//! timeout.
//!
//! Some requests can be answered only when something else has happened: all replicas have
//! acknowledged, enough bytes have arrived, a group has assembled. A server registers such a
//! request as an [`Operation`] under the keys of what it waits for. Code that changes one of these
//! things *checks* its key, and the operations under the key that can complete now are completed.
//! An operation that cannot complete in time expires.
//!
//! - Each operation ends exactly once: by a check, by force, by its timeout or by being cancelled,
//!   whichever comes first.
//! - When it ends, its timer is cancelled and it is removed from all its keys at once; there is no
//!   purge. (If another call is inside its `try_complete` at that moment, this happens when that
//!   call returns.)
//! - A check is never lost: if a check comes while an operation is being tried, the operation is
//!   tried again.
//! - No call waits for a callback on another thread, and no lock is held during a callback.
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

// `operation` is the trait that users implement. `door` is the purgatory itself, `ends` the calls
// that end or read operations, `arrival` the results of a registration. `node` is an operation with
// its word (in `crate::protocol`) and its timer's task. `lists`, `watchers`, `blocks` and
// `chunks` keep the operations under their keys.
mod arrival;
mod blocks;
mod chunks;
mod door;
mod ends;
mod lists;
mod node;
mod operation;
mod watchers;

pub use crate::protocol::Decision;
pub use arrival::{Arrival, Delayed, WatchError, WatchReason};
pub use door::Purgatory;
pub use lists::Stats;
pub use operation::Operation;
