//! An engine whose clock is moved by hand.

use tickless::{Engine, ManualClock};

/// Nothing happens on it but in `advance` and `turn`.
pub fn engine_by_hand() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}
