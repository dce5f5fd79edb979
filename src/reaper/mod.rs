//! The reaper: what makes timers fire. Read `turn` first; `thread` is a loop around it.
//!
//! `ending` decides who may run turns, and how that ends. `handover` gives what is due to the
//! handler, and `panics` keeps what that panics with; an `observer` per shard is told of both, and
//! passes on what is worth an event (`events`).

mod ending;
mod events;
mod handover;
mod lateness;
mod observer;
mod panics;
mod role;
mod thread;
mod turn;

pub use ending::{Ending, Turns};
pub use lateness::{Lateness, Latenesses, Seen};
pub use observer::{Observation, Observer};
pub use panics::{OnPanic, TaskPanic};
pub use thread::run;
pub use turn::{Reaper, Report};
