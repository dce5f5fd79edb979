//! Errors that return what was passed in, and those of clocks that are moved by hand.

mod refused;
mod turn;

pub use refused::{Refused, ScheduleError, ScheduleReason};
pub use turn::TurnError;
