//! The engine that users build, schedule on and stop.
//!
//! - `builder` holds an engine's settings (`limits`: those for pending timers); `assembly` builds
//!   the engine from them; `core` is the state that its threads share.
//! - `facade` is the engine's type, makes and shares engines, and schedules payloads; `when` is the
//!   time of a timer as callers give it.
//! - `ambient` is the engine of code that names none: entered, the thread's, the process's;
//!   `of_runtime`: that of a runtime of tokio's.
//! - `handle` is the caller's end of a timer; `waitable` is that of a task that can be waited for.
//! - `threads` and `spin` have the settings for the engine's threads; `crew` has the threads, and
//!   `watching` is what one of them does who watches the others.
//! - `driving` runs turns for callers, `driving_task` in a task of a runtime, `on_tokio` in one of
//!   tokio's; `virtual_time` moves clocks by hand; `stopping` ends an engine.
//! - `engine_ref` is a weak reference to an engine; `deadline` is when a sleep is due.
//! - `ticks` computes and moves deadlines in ticks, for higher-level APIs that hold a lock.
//! - `thread_cache` is what a thread keeps of each engine; `registry` finds an engine by number.
//! - `observe` has statistics, snapshots and metrics.

mod ambient;
mod assembly;
mod builder;
mod core;
mod crew;
mod deadline;
mod driving;
mod driving_task;
mod engine_ref;
mod facade;
mod handle;
mod limits;
mod observe;
#[cfg(feature = "tokio")]
mod of_runtime;
#[cfg(feature = "tokio")]
mod on_tokio;
mod registry;
mod spin;
#[cfg(feature = "tokio")]
mod stealable;
mod stopping;
mod thread_cache;
mod threads;
mod ticks;
mod virtual_time;
mod waitable;
mod watching;
mod when;

pub use crate::time::Driven;
pub use ambient::{EnterGuard, SetGlobalError, now};
pub use builder::{Builder, Driver};
pub(crate) use deadline::Deadline;
pub use driving::Turn;
pub(crate) use engine_ref::Computed;
pub use engine_ref::EngineRef;
pub use facade::Engine;
pub use handle::{Cancel, CancelOnDrop, Handle, State};
#[cfg(feature = "serde")]
pub use observe::Listing;
pub use observe::{DueCount, DueTime, LevelCount, Overdue, PendingTimer, Snapshot, Stats, View};
#[cfg(feature = "metrics")]
pub use observe::{Metrics, MetricsPublisher};
#[cfg(feature = "tokio")]
pub(crate) use of_runtime::is_ending;
pub use stopping::Stopped;
pub use ticks::{EngineTicks, HandleTicks};
pub use waitable::Waitable;
pub use when::When;
