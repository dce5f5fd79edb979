//! Errors: one type per operation, which gives back what was passed in. An error with a payload is
//! a struct of a reason and of the payload in an [`Exclusive`], and is `Sync` for every payload.

mod bind;
mod build;
mod exclusive;
mod reset;
mod schedule;
mod stop;
mod turn;

pub use bind::BindError;
pub use build::BuildError;
pub(crate) use exclusive::Exclusive;
pub use reset::ResetError;
pub use schedule::{ScheduleError, ScheduleReason};
pub use stop::StopError;
pub use turn::TurnError;
