//! Memory and counts: what the threads and shards of an engine pass on to each other.
//!
//! - [`depot`]: where threads swap full magazines for empty ones. `slots` stores the magazines.
//! - `stock`: the vacancies and the free entries (`free_list`) that a thread keeps. Each kind
//!   has a depot that takes its surplus and supplies it. `blocks` has the memory that is in none.
//! - `counters` and `all_counters`: counters with one writer each. `balance` has the figures for
//!   decisions: how many timers live, and how many entries are dead.
//! - [`Shared`] has all of this for one engine, and counts the timers that are pending, if only so
//!   many may be. Here, a shard is only a number.

mod all_counters;
pub mod balance;
mod blocks;
mod counters;
pub mod depot;
mod free_list;
mod items;
mod shared;
mod slots;
mod stock;

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use all_counters::visits;
pub use all_counters::{AllCounters, Sums};
pub use blocks::{Blocks, MOST_WAITING};
pub use counters::{Count, Counters};
pub(crate) use free_list::Outbox;
pub(crate) use items::Seat;
pub use items::{Memory, SEATS};
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use shared::alone;
pub(crate) use shared::release_one;
pub use shared::{SHARE, Shared};
pub(crate) use stock::Stock;
