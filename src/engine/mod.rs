//! The engine: what users build, schedule on, and stop.
//!
//! - `builder` is what an engine is to be like, `observing` who looks on; `assembly` puts it
//!   together, and `core` is what its threads share.
//! - `facade` is the engine's type, `scheduling` how payloads get their timers, `view` what can be
//!   seen of it.
//! - `when` is the time of a timer as callers say it, `handle` is the caller's end of a timer, `guard` one that cancels when dropped.
//! - `global` is the engine that a process shares; `remote` is an engine by its number.
//! - `stopping` is how it ends.
//! - `local` is what a thread keeps of each engine, in a table (`kept`).
//! - `registry` finds what has an engine's number.
//! - `ticks` reckons and moves in ticks, for doors that may call
//!   nothing else at that moment.
//! - `driving` runs turns for callers; `stats` and `snapshot` look on, and print as a `table`;
//!   `metrics` publishes what they count.

mod assembly;
mod builder;
mod core;
mod driving;
mod facade;
mod global;
mod guard;
mod handle;
mod kept;
mod local;
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
mod metrics;
mod observing;
mod registry;
mod remote;
mod scheduling;
mod snapshot;
mod stats;
mod stopping;
mod table;
#[cfg(feature = "keyed")]
mod ticks;
mod view;
mod when;

pub use builder::{Builder, Driver};
pub use driving::Turn;
pub use facade::Engine;
pub use guard::CancelOnDrop;
pub use handle::{Handle, State};
#[cfg(feature = "metrics")]
pub use metrics::{Metrics, MetricsPublisher};
pub(crate) use registry::Registry;
pub(crate) use remote::EngineRef;
pub use snapshot::{DueCount, DueTime, LevelCount, PendingTimer, Snapshot};
pub use stats::Stats;
pub use stopping::Stopped;
pub use when::When;
