//! tokio-util's `DelayQueue` with its runtime's clock stopped and moved by hand.
//!
//! Whatever the runtime does per step of time is part of what an expiry costs: the queue has no
//! other clock.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{self, Instant};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

/// The queue, inside a runtime that lives as long as the process.
pub(crate) struct Queue {
    queue: DelayQueue<u64>,
    runtime: &'static Runtime,
    start: Instant,
    now: u64,
    _entered: EnterGuard<'static>,
}

impl super::Wheel for Queue {
    const NAME: &'static str = "delay-queue";
    const ABOUT: &'static str =
        "tokio-util's DelayQueue alone, its clock stopped and moved by hand";

    type Key = Key;

    fn start() -> Queue {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime: &'static Runtime =
            Box::leak(Box::new(runtime.expect("a runtime without threads starts")));
        let entered = runtime.enter();
        let start = runtime.block_on(async { Instant::now() });
        Queue { queue: DelayQueue::new(), runtime, start, now: 0, _entered: entered }
    }

    #[inline]
    fn insert(&mut self, deadline_tick: u64, token: u64) -> Key {
        self.queue.insert_at(token, self.start + Duration::from_millis(deadline_tick))
    }

    #[inline]
    fn cancel(&mut self, key: Key) -> bool {
        self.queue.try_remove(&key).is_some()
    }

    #[inline]
    fn reset(&mut self, key: Key, deadline_tick: u64, _: u64) -> Option<Key> {
        self.queue.reset_at(&key, self.start + Duration::from_millis(deadline_tick));
        Some(key)
    }

    fn advance(&mut self, now: u64, mut fire: impl FnMut(u64)) {
        let by = Duration::from_millis(now - self.now);
        self.now = now;
        let queue = &mut self.queue;
        self.runtime.block_on(async {
            time::advance(by).await;
            poll_fn(|context| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                    fire(expired.into_inner());
                }
                Poll::Ready(())
            })
            .await;
        });
    }

    fn next_expiration(&mut self) -> Option<u64> {
        let deadline = self.queue.deadline(&self.queue.peek()?);
        Some(deadline.duration_since(self.start).as_millis() as u64)
    }
}
