//! The inbox: lists that many threads push on and one takes as a whole.
//!
//! `stack` is one list; `lanes` is eight of them in a cache line, which is what a bucket has;
//! `walk` is how the taker goes through what it took without waiting for memory.

mod lanes;
mod stack;
mod walk;

pub use lanes::{LANES, Lanes};
pub use stack::{Closed, Stack, next_of};
pub use walk::Walk;
