//! When all timers of an engine with threads are over.

use std::time::Instant;

use tickless::Engine;

use crate::patience::PATIENCE;

/// Waits until no timer of `engine` is pending, for a minute at most. (One that its owner drops
/// just as a reaper fires it is still counted until the reaper hands it over.)
#[track_caller]
pub fn assert_empties<T: Send + 'static>(engine: &Engine<T>) {
    let begun = Instant::now();
    while !engine.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{} are left", engine.len());
        std::thread::yield_now();
    }
}
