//! The reaper: what makes timers fire. Read `turn` first; `thread` is a loop around it.

mod handover;
mod lateness;
mod os;
mod thread;
mod turn;

pub use crate::dispatch::contained;
pub use lateness::{Lateness, Latenesses};
pub use os::pin_to;
pub use thread::run;
pub use turn::{Reaper, Report};
