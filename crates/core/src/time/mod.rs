//! Time as the wheels see it: ticks, clocks, and where a deadline is filed.

mod clock;
mod cycles;
mod driven;
mod scale;
pub mod thread_clock;

pub use clock::{Clock, ManualClock, RuntimeNow};
pub use driven::{Drivable, Driven, advance_to};
/// The most shards that an engine may have.
pub const MAX_SHARDS: usize = 1024;
pub use scale::{Scale, left_of_period, next_on_grid, saturating_ns};
pub use thread_clock::{Moment, ThreadClock};
#[doc(inline)]
pub use tickless_wheel::{Geometry, GeometryError, MAX_LEVELS, MAX_SLOTS, Place, Tick};

/// Bits that a deadline has in an entry's state word.
pub const TICK_BITS: u32 = Tick::BITS;
