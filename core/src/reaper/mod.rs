//! The reaper: what makes timers fire. Read `turn` first; `thread` is a loop around it, and `spin`
//! decides how that loop waits. A `group` is the shards that one such loop serves; `lead` decides
//! which thread sleeps for them. For most rings, a task of a runtime only looks `ahead`.
//!
//! `ending` decides which thread may run turns, and how that ends. `handover` gives due payloads to
//! the handler; `panics` describes their panics. Each shard has an `observer`, which records both
//! and emits `events`. `watch` says when somebody looks whether a task takes too long, and `stuck`
//! which do.

mod ahead;
mod ending;
mod group;
mod handover;
#[cfg(feature = "serde")]
mod json;
mod lateness;
mod lead;
mod observer;
mod panics;
mod role;
pub mod spin;
pub mod stuck;
mod thread;
mod tracing_events;
mod turn;
mod watch;

pub use ending::{Ending, Turns};
pub use group::Group;
pub use lateness::{Lateness, Latenesses, SUB_BITS, Seen};
pub use lead::Lead;
pub use observer::{Observation, Observer};
pub use panics::{OnPanic, TaskPanic};
pub use spin::Spin;
pub use stuck::{OnStuck, StuckTask, StuckThreads};
pub use thread::{Begin, Serve, serve};
pub use turn::{Report, TurnContext};
pub use watch::{Found, NEVER_NS, Watch, again_after_ns};

use watch::Look;
