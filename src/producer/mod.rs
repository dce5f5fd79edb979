//! The producers' side of a shard: what a thread does there without being its owner.
//!
//! A thread has a [`Producer`] of each engine: seats, free entries and counters. `scheduling` schedules
//! and resets with it, `cancel` is the end of a handle, `deferred` is what a call leaves to be done
//! when the producer is not lent any more. The other actor over a shard is its owner: see `reaper`.

mod cancel;
mod deferred;
mod scheduling;

pub use cancel::{WithProducer, cancel, let_go, take};
pub use deferred::{Chores, Deferred};
pub use scheduling::{Moved, Producer};
