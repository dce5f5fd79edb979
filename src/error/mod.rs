//! Errors: one type per operation, giving back what was handed in.

mod bind;
mod build;
mod reset;
mod schedule;
mod stop;
mod turn;

pub use bind::BindError;
pub use build::BuildError;
pub use reset::ResetError;
pub use schedule::ScheduleError;
pub use stop::StopError;
pub use turn::TurnError;
