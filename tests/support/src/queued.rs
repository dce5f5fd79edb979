//! A delay queue on an engine whose clock is moved by hand, and the task that polls it.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tickless::Engine;
use tickless::future::DelayQueue;
use tickless::future::delay_queue::{Expired, Key};

use crate::hands::engine_by_hand;
use crate::polling::{Bell, bell};

pub struct Queued<T> {
    pub engine: Engine,
    pub queue: DelayQueue<T>,
    pub begin: Instant,
    bell: Arc<Bell>,
    waker: Waker,
    /// Wake-ups before the last poll.
    seen: u32,
}

pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// An empty queue at millisecond 0.
pub fn queued<T: Debug + PartialEq>() -> Queued<T> {
    let (engine, (bell, waker)) = (engine_by_hand(), bell());
    let (queue, begin) = (engine.delay_queue(), engine.now());
    Queued { engine, queue, begin, bell, waker, seen: 0 }
}

/// A queue with these items: what they are called, and the millisecond at which they are due.
pub fn with(items: &[(&'static str, u64)]) -> (Queued<&'static str>, Vec<Key>) {
    let mut queued = queued();
    let keys = items.iter().map(|(name, due)| queued.queue.insert(*name, ms(*due)));
    let keys = keys.collect();
    (queued, keys)
}

impl<T: Debug + PartialEq> Queued<T> {
    /// That millisecond.
    pub fn at(&self, count: u64) -> Instant {
        self.begin + ms(count)
    }

    /// Lets time pass up to that millisecond.
    pub fn pass_to(&mut self, count: u64) {
        self.engine.advance(self.at(count) - self.engine.now()).unwrap();
    }

    pub fn poll_whole(&mut self) -> Poll<Option<Expired<T>>> {
        self.seen = self.bell.woken();
        self.queue.poll_expired(&mut Context::from_waker(&self.waker))
    }

    pub fn poll(&mut self) -> Poll<Option<T>> {
        self.poll_whole().map(|expired| expired.map(Expired::into_inner))
    }

    /// Whether the task was woken since it polled last.
    pub fn is_woken(&self) -> bool {
        self.bell.woken() > self.seen
    }

    #[track_caller]
    pub fn assert_pending(&mut self) {
        assert_eq!(self.poll(), Poll::Pending);
    }

    /// That this is the only item that is due.
    #[track_caller]
    pub fn assert_due(&mut self, value: T) {
        assert_eq!(self.poll(), Poll::Ready(Some(value)));
    }

    /// That there is nothing in it.
    #[track_caller]
    pub fn assert_empty(&mut self) {
        assert_eq!((self.poll(), self.queue.len()), (Poll::Ready(None), 0));
    }

    /// What is due, in alphabetical or whichever order.
    pub fn drain_due(&mut self) -> Vec<T>
    where
        T: Ord,
    {
        let mut due = Vec::new();
        while let Poll::Ready(Some(value)) = self.poll() {
            due.push(value);
        }
        due.sort_unstable();
        due
    }
}
