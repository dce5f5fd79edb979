//! Keyed timers whose clock is moved by hand.

use std::hash::Hash;

use tickless::{Engine, ManualClock};
use tickless_keyed::KeyedTimers;

/// Timers without any, and the engine to advance.
pub fn by_hand<K>() -> (KeyedTimers<K>, Engine)
where
    K: Hash + Eq + Send + Sync + 'static,
{
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    (KeyedTimers::with_engine(&engine), engine)
}
