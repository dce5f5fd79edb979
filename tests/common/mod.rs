//! What the integration tests share: how much they do, and when all of it is over.

use std::time::{Duration, Instant};

use tickless::Engine;

/// `n`, times the environment's `TICKLESS_TEST_SCALE` (default 1), and at least 1.
pub(crate) fn scaled(n: u64) -> u64 {
    let factor = std::env::var("TICKLESS_TEST_SCALE")
        .map_or(1.0, |factor| factor.parse::<f64>().expect("TICKLESS_TEST_SCALE is a number"));
    ((n as f64 * factor) as u64).max(1)
}

/// Waits until no timer of `engine` is pending, for a minute at most. (One that its owner drops just
/// as a reaper fires it is still counted until the reaper hands it over.)
#[allow(dead_code, reason = "not every program of tests has an engine with threads")]
#[track_caller]
pub(crate) fn assert_empties<T: Send + 'static>(engine: &Engine<T>) {
    let begun = Instant::now();
    while !engine.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} are left", engine.len());
        std::thread::yield_now();
    }
}
