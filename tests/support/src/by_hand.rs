//! A purgatory whose clock is moved by hand.

use std::hash::Hash;

use tickless::{Engine, ManualClock};
use tickless_purgatory::{Operation, Purgatory};

/// An empty purgatory, and the engine to advance.
pub fn by_hand<K, O>() -> (Purgatory<K, O>, Engine)
where
    K: Hash + Eq + Send + 'static,
    O: Operation,
{
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    (Purgatory::with_engine(&engine), engine)
}
