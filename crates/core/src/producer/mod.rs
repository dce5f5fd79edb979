//! The producers' side of a shard: what a thread does there without being its owner.
//!
//! A thread has one [`Producer`] per engine: seats, free entries and counters. `scheduling`
//! schedules and resets with it, and files again what an exchange of payloads found unlinked;
//! `cancel` ends a handle, and `deferred` holds the work that a call leaves for the time when the
//! producer is no longer lent. The other actor over a shard is its owner: see `reaper`.

mod cancel;
mod deferred;
mod scheduling;

pub use cancel::{WithProducer, cancel, cancel_and_take, let_go};
pub use deferred::{Chores, Deferred};
pub use scheduling::{Moved, Producer};
