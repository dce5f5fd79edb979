//! tokio-util's `DelayQueue` behind a mutex, drained by a thread with a runtime of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::sink;

/// How many timers the thread takes before it lets others at the queue.
const BATCH: usize = 64;

type Shared = Arc<Mutex<DelayQueue<u64>>>;

/// The queue, and the runtime that its deadlines need.
#[derive(Debug)]
pub(crate) struct MutexDelayQueue {
    queue: Shared,
    runtime: Handle,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct QueueProducer(Shared);

impl Contender for MutexDelayQueue {
    const NAME: &'static str = "delay-queue";
    const ABOUT: &'static str = "tokio-util's DelayQueue behind a parking_lot mutex";

    type Timer = Option<Key>;
    type Producer = QueueProducer;

    fn start(_: Setup) -> Result<MutexDelayQueue, BenchError> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(BenchError::setup(Self::NAME))?;
        let handle = runtime.handle().clone();
        let queue = {
            let _entered = handle.enter();
            Shared::new(Mutex::new(DelayQueue::new()))
        };
        let drained = queue.clone();
        thread::Builder::new()
            .name("delay-queue".to_owned())
            .spawn(move || runtime.block_on(drain(drained)))
            .map_err(BenchError::setup(Self::NAME))?;
        Ok(MutexDelayQueue { queue, runtime: handle })
    }

    fn producer(&self) -> QueueProducer {
        QueueProducer(self.queue.clone())
    }

    fn inside<R>(&self, body: impl FnOnce() -> R) -> R {
        let _entered = self.runtime.enter();
        body()
    }

    fn level_widths(_: Setup) -> Vec<Duration> {
        super::tokio_sleep::level_widths()
    }
}

impl Producer for QueueProducer {
    type Timer = Option<Key>;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut Option<Key>>, delay: Duration, token: u64) {
        *timer.get_mut() = Some(self.0.lock().insert(token, delay));
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Option<Key>>) -> bool {
        let key = timer.get_mut().take();
        key.is_some_and(|key| self.0.lock().try_remove(&key).is_some())
    }

    #[inline]
    fn reset(&mut self, timer: Pin<&mut Option<Key>>, delay: Duration, _: u64) -> bool {
        let key = timer.get_mut().as_ref().expect("a timer was scheduled here");
        self.0.lock().reset(key, delay);
        true
    }
}

/// Fires what is due, for ever. Tokens leave the lock before they fire.
async fn drain(queue: Shared) {
    let mut due = Vec::with_capacity(BATCH);
    loop {
        poll_fn(|context| {
            let mut queue = queue.lock();
            while due.len() < BATCH {
                match queue.poll_expired(context) {
                    Poll::Ready(Some(expired)) => due.push(expired.into_inner()),
                    // An empty queue remembers who to wake, too.
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            if due.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        due.drain(..).for_each(sink::fire);
    }
}
