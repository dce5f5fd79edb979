//! The reaper: what makes timers fire. Read `turn` first; `handover` gives due payloads to the
//! handler, and catches its panics. Each shard has an `observer`, which tells of panics and of
//! stuck tasks, and emits `tracing_events`.
//!
//! Around turns is *serving*, which the README here tells as a story. `server` is the loop of a
//! thread, and `spin` decides how that waits. `ending` and `role` decide which thread may run
//! turns, and how that ends; a `group` is the shards that one thread sleeps for, which is the one
//! that has the `lead`; `watch` says when somebody looks whether a task takes too long, and `stuck`
//! which do.

mod context;
mod ending;
mod group;
mod handover;
#[cfg(feature = "serde")]
mod json;
mod lateness;
mod lead;
mod observer;
mod role;
mod server;
pub mod spin;
pub mod stuck;
mod tracing_events;
mod turn;
mod watch;

pub use context::TurnContext;
pub use ending::{Ending, Role, Waited};
pub use group::Group;
pub use lateness::{Lateness, Latenesses, SUB_BITS, Seen};
pub use lead::Lead;
pub use observer::{Observation, Observer, OnPanic, TaskPanic};
pub use server::{Serve, Server};
pub use spin::Spin;
pub use stuck::{Found, OnStuck, StuckTask, StuckThreads};
pub use tracing_events::waits_by_sleep;
pub use turn::Report;
pub use watch::{NEVER_NS, Watch};
