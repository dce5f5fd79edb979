//! The inbox: lists that many threads push on and one takes as a whole.
//!
//! `stack` is one list; `lanes` is eight of them in a cache line, which is what producers push on;
//! `own` is what the taker files for itself; `hand` is what it took and goes through, without
//! waiting for memory and in the sight of readers; `walk` is the same for the end, when nobody
//! looks on.

mod hand;
mod lanes;
mod own;
mod stack;
mod walk;

pub use hand::{At, CHAINS, Hand};
pub use lanes::{LANES, Lanes};
pub use own::{OWN_LANES, OwnLanes};
pub use stack::{Closed, Stack, next_of};
pub use walk::Walk;
