//! The engine: what users build, schedule on, and stop.
//!
//! - `builder` puts an engine together; `core` is what its threads share.
//! - `typed` is the engine for payloads of any type, `closures` the one for closures.
//! - `handle` is the caller's end of a timer, `guard` one that cancels when dropped.
//! - `leftover` is what an engine had pending that nobody asked for.
//! - `local` is what a thread keeps of each engine; `registry` finds what has an engine's number.
//! - `ticks` reckons and moves in ticks, for doors that may call nothing else at that moment.
//! - `driving` runs turns for callers; `stats` and `snapshot` look on.

mod builder;
mod closures;
mod core;
mod driving;
mod guard;
mod handle;
mod leftover;
mod local;
mod registry;
mod snapshot;
mod stats;
#[cfg(feature = "keyed")]
mod ticks;
mod typed;

pub use builder::{Builder, Driver};
pub use closures::Engine;
pub use driving::Turn;
pub use guard::CancelOnDrop;
pub use handle::{Handle, State};
pub(crate) use registry::Registry;
pub use snapshot::{PendingTimer, Snapshot};
pub use stats::Stats;
pub use typed::TypedEngine;
