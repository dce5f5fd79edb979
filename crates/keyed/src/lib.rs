#![doc = include_str!("../README.md")]

mod by_key;
mod door;
mod error;
mod node;
mod running;
mod table;
mod timers;
mod ttl;
mod ttl_by_key;
mod waiting;
mod waits;

pub use error::{IfAbsentError, IfAbsentReason, ResetError, Scheduled};
pub use timers::KeyedTimers;
pub use ttl::TtlMap;
