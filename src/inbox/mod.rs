//! The inbox: lists that many threads push on and one takes as a whole.
//!
//! `stack` is one list; `lanes` is eight of them in a cache line, which is what producers push on;
//! `own` is what the taker files for itself; `walk` is how the taker goes through what it took
//! without waiting for memory.

mod lanes;
mod own;
mod stack;
mod walk;

pub use lanes::{LANES, Lanes};
pub use own::{OWN_LANES, OwnLanes};
pub use stack::{Closed, Stack, next_of};
pub use walk::Walk;
