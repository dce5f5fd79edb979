//! nexus-timer's wheel, polled and rebalanced in one call.

use std::time::{Duration, Instant};

use nexus_timer::{TimerHandle, Wheel, WheelBuilder};

/// Timers for which the wheel makes room at a time.
const CHUNK: usize = 4_096;

/// The wheel, with its start as tick 0.
pub(crate) struct Nexus {
    wheel: Wheel<u64>,
    start: Instant,
    due: Vec<u64>,
}

impl super::Wheel for Nexus {
    const NAME: &'static str = "nexus-timer";
    const ABOUT: &'static str = "nexus-timer's unbounded wheel, 1 ms ticks";

    type Key = TimerHandle<u64>;

    fn start() -> Nexus {
        let start = Instant::now();
        let wheel = WheelBuilder::default().unbounded(CHUNK).build(start);
        Nexus { wheel: wheel.expect("the defaults are valid"), start, due: Vec::new() }
    }

    #[inline]
    fn insert(&mut self, deadline_tick: u64, token: u64) -> TimerHandle<u64> {
        self.wheel.schedule(self.start + Duration::from_millis(deadline_tick), token)
    }

    #[inline]
    fn insert_for_good(&mut self, deadline_tick: u64, token: u64) {
        self.wheel.schedule_forget(self.start + Duration::from_millis(deadline_tick), token);
    }

    #[inline]
    fn cancel(&mut self, key: TimerHandle<u64>) -> bool {
        self.wheel.cancel(key).is_some()
    }

    #[inline]
    fn advance(&mut self, now: u64, fire: impl FnMut(u64)) {
        self.wheel.poll_and_rebalance(self.start + Duration::from_millis(now), &mut self.due);
        self.due.drain(..).for_each(fire);
    }

    fn next_expiration(&mut self) -> Option<u64> {
        let next = self.wheel.next_deadline()?;
        Some(next.duration_since(self.start).as_millis() as u64)
    }
}
