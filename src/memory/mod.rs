//! Memory and counts: what the threads and shards of an engine pass on to each other.
//!
//! - [`depot`]: threads exchange whole magazines there, over the slots of a `rack`.
//! - `seats` and `stock`: the vacancies and the free entries that a thread has at hand. Both go to
//!   a depot and come from one.
//! - `tally` and `tallies`: counters with one writer each. `balance` has the figures for decisions:
//!   how many timers live, and how many entries are dead.
//! - [`Shared`] has all of this for one engine. A shard is a number in here.

mod balance;
pub mod depot;
mod rack;
mod seats;
mod shared;
mod stock;
mod tallies;
mod tally;

pub(crate) use seats::{LeftDead, SEATS, Seat, Seats};
pub(crate) use shared::Memory;
pub use shared::Shared;
pub(crate) use stock::{MAGAZINE, Stock, release, release_one};
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use tallies::visits;
pub use tallies::{Sums, Tallies};
pub use tally::{Count, Tally};
