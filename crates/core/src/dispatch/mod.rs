//! Dispatch, as far as a reaper takes part: the handler and its batches, the payloads in hand, and
//! what becomes of their panics.
//!
//! The handlers with threads, channels and runtimes of their own are in the crate `tickless`.

mod batch;
mod handler;
mod in_hand;
mod own;
mod panics;
mod task;

pub use batch::{Batch, Due};
pub use handler::{Handler, Inline, IntoPayload};
pub use in_hand::{HandOver, InHand, Lost, Payloads, Progress};
pub use own::Own;
pub use panics::{Panics, contained, contained_or, drop_each};
pub use task::{Kind, Runs, Task};
