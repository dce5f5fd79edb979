//! tickless's `DelayQueue`, on an engine whose clock is moved by hand.
//!
//! Whatever the engine does per step of time is part of what an expiry costs: the queue has no
//! other clock.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tickless::future::DelayQueue;
use tickless::future::delay_queue::Key;
use tickless::{Engine, ManualClock};

/// The queue, and its engine.
pub(crate) struct Queue {
    queue: DelayQueue<u64>,
    engine: Engine,
    clock: ManualClock,
    start: Instant,
    now: u64,
    waker: Waker,
}

/// The task, which is only ever polled.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Task>) {}
}

impl super::Wheel for Queue {
    const NAME: &'static str = "tickless-delay-queue";
    const ABOUT: &'static str = "this crate: future::DelayQueue, its clock moved by hand";

    type Key = Key;

    fn start() -> Queue {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build();
        let engine = engine.expect("an engine without threads starts");
        let (queue, start, waker) = (engine.delay_queue(), engine.now(), Arc::new(Task).into());
        Queue { queue, engine, clock, start, now: 0, waker }
    }

    #[inline]
    fn insert(&mut self, deadline_tick: u64, token: u64) -> Key {
        self.queue.insert_at(token, self.start + Duration::from_millis(deadline_tick))
    }

    #[inline]
    fn cancel(&mut self, key: Key) -> bool {
        self.queue.remove(key).is_some()
    }

    #[inline]
    fn reset(&mut self, key: Key, deadline_tick: u64, _: u64) -> Option<Key> {
        let deadline = self.start + Duration::from_millis(deadline_tick);
        self.queue.reset_at(key, deadline).then_some(key)
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        self.clock.advance(Duration::from_millis(now - self.now));
        self.now = now;
        self.engine.turn(0).expect("the engine runs");
        let context = &mut Context::from_waker(&self.waker);
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(context) {
            fire(expired.into_inner());
        }
    }

    fn next_expiration(&mut self) -> Option<u64> {
        let deadline = self.queue.deadline(self.queue.peek()?)?;
        Some(deadline.duration_since(self.start).as_millis() as u64)
    }
}
