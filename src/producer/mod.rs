//! The producers' side of a shard: what a thread does there without being its owner.
//!
//! A thread has a [`Keeper`] of each engine: seats, free entries and counters. `keeper` schedules
//! and resets with it, `cancel` is the end of a handle, `deferred` is what a call leaves to be done
//! when the keeper is not lent any more. The other actor over a shard is its owner: see `reaper`.

mod cancel;
mod deferred;
mod keeper;

pub use cancel::{WithKeeper, cancel, let_go, take};
pub use deferred::{Chores, Deferred};
pub use keeper::{Keeper, Moved};
