//! The engine: what users build, schedule on, and stop.
//!
//! - `builder` has an engine's settings; `assembly` puts it together, and `core` is what its
//!   threads share.
//! - `facade` is the engine's type, and how payloads get their timers; `when` is the time of a
//!   timer as callers say it.
//! - `handle` is the caller's end of a timer, `guard` one that cancels when dropped.
//! - `driving` runs turns for callers; `stopping` is how an engine ends.
//! - `global` is the engine that a process shares; `remote` is an engine by its number.
//! - `ticks` computes and moves in ticks, for doors that hold a lock.
//! - `thread_cache` is what a thread keeps of each engine.
//! - `observe` is what an engine tells about itself.

mod assembly;
mod builder;
mod core;
mod driving;
mod facade;
mod global;
mod guard;
mod handle;
mod observe;
mod remote;
mod stopping;
mod thread_cache;
#[cfg(feature = "keyed")]
mod ticks;
mod when;

pub use builder::{Builder, Driver};
pub use driving::Turn;
pub use facade::Engine;
pub use guard::CancelOnDrop;
pub use handle::{Handle, State};
pub use observe::{DueCount, DueTime, LevelCount, PendingTimer, Snapshot, Stats};
#[cfg(feature = "metrics")]
pub use observe::{Metrics, MetricsPublisher};
pub(crate) use remote::EngineRef;
pub use stopping::Stopped;
pub(crate) use thread_cache::Registry;
pub use when::When;
