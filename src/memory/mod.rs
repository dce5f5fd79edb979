//! Memory and counts: what the threads and shards of an engine pass on to each other.
//!
//! - [`depot`]: threads exchange whole magazines there, over the slots of a `slots`.
//! - `seats` and `free_list`: the vacancies and the free entries that a thread has at hand. Both go to
//!   a depot and come from one.
//! - `counters` and `all_counters`: counters with one writer each. `balance` has the figures for decisions:
//!   how many timers live, and how many entries are dead.
//! - [`Shared`] has all of this for one engine. A shard is a number in here.

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
