//! Dispatch: what happens to payloads that are due.
//!
//! The reaper collects a batch and hands it to one [`Handler`]. The closure engine's handler
//! runs each [`Task`] where the reaper is (inline). `slow` finds out which payloads take long.

mod batch;
mod handler;
mod slow;
mod task;

pub(crate) use batch::Queue;
pub use batch::{Batch, Due};
pub use handler::{Handler, Inline};
pub(crate) use slow::{Lap, Stopwatch};
pub use slow::{OnSlowTask, SlowRule, SlowTask};
pub use task::Task;
