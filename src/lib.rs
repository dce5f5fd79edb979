//! A lock-free, high-throughput timer engine.

mod sync;
mod time;

pub use time::{Clock, Geometry, GeometryError, MAX_SLOTS, ManualClock, Place, Tick};
