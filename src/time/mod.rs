//! Time as the wheels see it: ticks, clocks, and where a deadline is filed.

mod clock;
mod cycles;
mod geometry;
mod manual;
mod scale;
mod tick;
mod watch;

pub use clock::Clock;
pub use geometry::{Geometry, GeometryError, MAX_LEVELS, MAX_SLOTS, Place};
pub use manual::ManualClock;
/// The most shards that an engine may have.
pub const MAX_SHARDS: usize = 1024;
pub use scale::{Scale, saturating_ns};
pub use tick::{TICK_BITS, Tick};
pub use watch::{Moment, Watch};
