//! A map whose entries have a time to live, on a clock that is moved by hand.

use std::sync::Arc;

use tickless::{Engine, ManualClock};
use tickless_keyed::TtlMap;
use tickless_sync::Mutex;

/// The entries that a callback got, in order.
#[derive(Clone, Default)]
pub(crate) struct Expired(Arc<Mutex<Vec<(u32, &'static str)>>>);

/// A map, its engine and clock, and what has expired.
pub(crate) struct TtlMaps {
    pub(crate) map: TtlMap<u32, &'static str>,
    pub(crate) engine: Engine,
    pub(crate) expired: Expired,
    pub(crate) clock: ManualClock,
}

impl Expired {
    /// What has expired since the last call.
    pub(crate) fn take(&self) -> Vec<(u32, &'static str)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A map without entries.
pub(crate) fn by_hand() -> TtlMaps {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let expired = Expired::default();
    let sink = expired.clone();
    let map = TtlMap::with_engine(&engine, move |key: &u32, value: Arc<&'static str>| {
        sink.0.lock().unwrap().push((*key, *value));
    });
    TtlMaps { map, engine, expired, clock }
}
