//! tickless's wheel for one thread, with the geometry that it has by default.

use tickless::Tick;
use tickless::local::{Key, Wheel};

/// The wheel.
#[derive(Debug)]
pub(crate) struct TicklessWheel(Wheel<u64>);

impl super::Wheel for TicklessWheel {
    const NAME: &'static str = "tickless-wheel";
    const ABOUT: &'static str = "this crate: local::Wheel";

    type Key = Key;

    fn start() -> TicklessWheel {
        TicklessWheel(Wheel::default())
    }

    #[inline]
    fn insert(&mut self, deadline_tick: u64, token: u64) -> Key {
        self.0.insert(Tick::new(deadline_tick), token)
    }

    #[inline]
    fn cancel(&mut self, key: Key) -> bool {
        self.0.cancel(key).is_some()
    }

    #[inline]
    fn reset(&mut self, key: Key, deadline_tick: u64, _: u64) -> Option<Key> {
        self.0.reset(key, Tick::new(deadline_tick)).then_some(key)
    }

    #[inline]
    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        self.0.advance(Tick::new(now), |_, _, token| fire(token));
    }

    fn next_expiration(&mut self) -> Option<u64> {
        self.0.next_expiration().map(Tick::get)
    }
}
