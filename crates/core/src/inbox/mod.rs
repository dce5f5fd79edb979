//! The inbox: lists that many threads push on and one takes as a whole.
//!
//! `stack` is one list; `lanes` is eight of them in a cache line, on which producers push, and the
//! lists on which the taker files entries for itself. `tray` has the nodes that the taker took: it
//! goes through them without waiting for memory, and readers find them there. `walk` is for those
//! who look and take nothing.

mod lanes;
mod stack;
mod tray;
mod walk;

pub use lanes::{LANES, Lanes, OWN_LANES, OwnLanes};
pub(crate) use stack::next_of;
pub use stack::{Closed, Stack};
pub use tray::{At, CHAINS, Tray};
pub use walk::{Walk, behind};
