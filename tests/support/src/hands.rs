//! An engine whose clock is moved by hand.

use std::time::Duration;

use tickless::{Engine, ManualClock};

/// Nothing happens on it but in `advance` and `turn`.
pub fn engine_by_hand() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

/// Lets time pass in which the engine needs no memory, and runs idle turns, which give back what it
/// had kept.
pub fn let_memory_go<T: Send + 'static>(engine: &Engine<T>) {
    for _ in 0..2 {
        engine.advance(Duration::from_secs(11)).unwrap();
        // Each gives a part of it back.
        (0..200).for_each(|_| _ = engine.turn(0).unwrap());
    }
}
