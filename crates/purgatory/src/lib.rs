#![doc = include_str!("../README.md")]

// `operation` is the trait that users implement. `door` is the purgatory itself, `ends` the calls
// that end or read operations, `arrival` the results of a registration. `node` is an operation with
// its word (`crates/sync/src/protocol/hold.rs`) and its timer's task. `lists`, `watchers`, `blocks`
// and `chunks` keep the operations under their keys.
mod arrival;
mod blocks;
mod chunks;
mod door;
mod ends;
mod lists;
mod node;
mod operation;
mod watchers;

pub use arrival::{Arrival, Delayed, WatchError, WatchReason};
pub use door::Purgatory;
pub use operation::Operation;
pub use tickless::internal::protocol::Decision;
pub use watchers::Stats;
