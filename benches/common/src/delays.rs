//! Delays from a fixed-seed generator: the same in every run.

use std::time::Duration;

/// A xorshift generator of delays.
#[derive(Debug)]
pub struct Delays(u64);

impl Delays {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Delays {
        Delays(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Uniform between `from_ms` and `to_ms`.
    #[inline]
    pub fn between(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_micros(from_ms * 1000 + self.0 % ((to_ms - from_ms) * 1000))
    }
}
