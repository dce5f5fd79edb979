//! A lock-free, high-throughput timer engine.

pub mod local;
mod sync;
mod time;

pub use time::{Clock, Geometry, GeometryError, MAX_SLOTS, ManualClock, Place, Tick};
