#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;

mod advance;
mod blocks;
mod check;
mod drain;
mod entry;
mod error;
mod filing;
mod geometry;
mod hashed;
mod key;
mod lists;
mod lookup;
mod occupancy;
mod prefetch;
mod rings;
mod rounds;
mod tick;
mod timing_wheel;
mod view;
mod walk;
mod wheel;

pub use drain::Drain;
pub use error::GeometryError;
pub use geometry::{Geometry, MAX_LEVELS, MAX_SLOTS, Place};
pub use hashed::HashedWheel;
pub use key::Key;
pub use tick::Tick;
pub use timing_wheel::TimingWheel;
pub use view::Iter;
pub use wheel::Wheel;
