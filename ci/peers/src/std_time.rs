//! `std::time`, by the engine's clock: for tests that look at it, on an engine whose time is
//! virtual.

use std::ops::{Add, Sub};

use crate::engines::elsewhere;

pub use std::time::Duration;

/// As `std::time::Instant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(std::time::Instant);

// === impl Instant ===

impl Instant {
    pub fn now() -> Instant {
        Instant(elsewhere().now())
    }

    pub fn elapsed(&self) -> Duration {
        Instant::now().0 - self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, by: Duration) -> Instant {
        Instant(self.0 + by)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, other: Instant) -> Duration {
        self.0 - other.0
    }
}
