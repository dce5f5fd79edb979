//! Memory and counts: what the threads and shards of an engine pass on to each other.
//!
//! - [`depot`]: where threads swap full magazines for empty ones. `slots` stores the magazines.
//! - `seats` and `free_list`: the vacancies and the free entries that a thread has at hand. Each
//!   has a depot that takes its surplus and supplies it.
//! - `counters` and `all_counters`: counters with one writer each. `balance` has the figures for
//!   decisions: how many timers live, and how many entries are dead.
//! - [`Shared`] has all of this for one engine. Here, a shard is only a number.

mod all_counters;
mod balance;
mod counters;
pub mod depot;
mod free_list;
mod seats;
mod shared;
mod slots;

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use all_counters::visits;
pub use all_counters::{AllCounters, Sums};
pub use counters::{Count, Counters};
pub(crate) use free_list::{FreeList, MAGAZINE, release, release_one};
pub(crate) use seats::{LeftDead, SEATS, Seat, Seats};
pub(crate) use shared::Memory;
pub use shared::Shared;
