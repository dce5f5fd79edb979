//! Time as the wheels see it: ticks, clocks, and where a deadline is filed.

mod clock;
mod geometry;
mod scale;
mod tick;

pub use clock::{Clock, ManualClock};
pub use geometry::{Geometry, GeometryError, MAX_LEVELS, MAX_SLOTS, Place};
pub use scale::{Scale, saturating_ns};
pub use tick::{TICK_BITS, Tick};
