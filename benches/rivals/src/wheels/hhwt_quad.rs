//! The wheel inside hierarchical_hash_wheel_timer: four wheels of 256 slots, no cancel.

use std::time::Duration;

use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::quad_wheel::QuadWheelWithOverflow;

/// The wheel, and what it does not say: how late it is.
pub(crate) struct HhwtQuad {
    wheel: QuadWheelWithOverflow<u64>,
    now: u64,
    len: usize,
}

impl super::Wheel for HhwtQuad {
    const NAME: &'static str = "hhwt-quad";
    const ABOUT: &'static str = "the wheel of hierarchical_hash_wheel_timer, which cannot cancel";
    const CANCELS: bool = false;

    type Key = ();

    fn start() -> HhwtQuad {
        HhwtQuad { wheel: QuadWheelWithOverflow::default(), now: 0, len: 0 }
    }

    #[inline]
    fn insert(&mut self, deadline_tick: u64, token: u64) {
        let delay = Duration::from_millis(deadline_tick - self.now);
        let inserted = self.wheel.insert_with_delay(token, delay);
        assert!(inserted.is_ok(), "no timer is inserted after its deadline");
        self.len += 1;
    }

    fn cancel(&mut self, (): ()) -> bool {
        false
    }

    #[inline]
    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        while self.now < now {
            // Ticks in which nothing happens may be skipped, but not the last one.
            if let Skip::Millis(empty) = self.wheel.can_skip() {
                let skipped = u64::from(empty).min(now - self.now - 1);
                self.wheel.skip(skipped as u32);
                self.now += skipped;
            }
            let due = self.wheel.tick();
            self.now += 1;
            self.len -= due.len();
            due.into_iter().for_each(&mut fire);
        }
    }

    fn next_expiration(&mut self) -> Option<u64> {
        let empty = match self.wheel.can_skip() {
            Skip::Millis(empty) => u64::from(empty),
            _ => 0,
        };
        (self.len > 0).then_some(self.now + empty + 1)
    }
}
