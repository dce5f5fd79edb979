//! Sleeps, timeouts and intervals, polled by tasks that change, and a delay queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tickless::future::{DelayQueue, Elapsed, Interval, Sleep, SleepError, Timeout};
use tickless::local::Key;
use tickless::{Engine, Tick};

use super::stage::{Stage, picked};
use super::world::{Flag, Token, World, lock};
use models::engine_model::case::At;

/// A sleep or a timeout, and the task that polled it last.
pub(crate) struct Waiting {
    future: Waited,
    at_ns: u64,
    /// Present while it is known to be woken.
    flag: Option<Arc<Flag>>,
}

enum Waited {
    Sleep(Sleep),
    Timeout { future: Pin<Box<Timeout<Finishing>>>, is_finished: Arc<AtomicBool> },
}

/// A future that is ready when it is told to be.
struct Finishing(Arc<AtomicBool>);

/// An interval, and when its next tick is.
pub(crate) struct Ticking {
    interval: Interval,
    next: Option<Instant>,
    next_ns: u64,
    period_ns: u64,
    flag: Option<Arc<Flag>>,
}

/// The delay queue, and what is in it.
pub(crate) struct Queue {
    queue: DelayQueue<Token>,
    /// The key, the number and the tick of each item.
    items: Vec<(Key, usize, u64)>,
    inserted: usize,
    flag: Option<Arc<Flag>>,
}

/// How a poll ended.
enum Polled {
    Pending,
    Ready,
    Finished,
    Refused(SleepError),
}

// === impl Waiting ===

impl Future for Finishing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Waited {
    fn poll(&mut self, cx: &mut Context<'_>) -> Polled {
        let cause = |elapsed: Elapsed| elapsed.cause().map_or(Polled::Ready, Polled::Refused);
        match self {
            Waited::Sleep(sleep) => match sleep.poll_elapsed(cx) {
                Poll::Pending => Polled::Pending,
                Poll::Ready(Ok(())) => Polled::Ready,
                Poll::Ready(Err(error)) => Polled::Refused(error),
            },
            Waited::Timeout { future, .. } => match future.as_mut().poll(cx) {
                Poll::Pending => Polled::Pending,
                Poll::Ready(Ok(())) => Polled::Finished,
                Poll::Ready(Err(elapsed)) => cause(elapsed),
            },
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self, Waited::Timeout { is_finished, .. } if is_finished.load(Ordering::Relaxed))
    }
}

impl Waiting {
    pub(super) fn set_free(&self) {
        self.flag.iter().for_each(|flag| flag.set_free());
    }

    pub(super) fn assert_settled(&self, world: &World) {
        self.flag.iter().for_each(|flag| flag.assert_settled(world));
    }
}

impl Ticking {
    pub(super) fn set_free(&self) {
        self.flag.iter().for_each(|flag| flag.set_free());
    }

    pub(super) fn assert_settled(&self, world: &World) {
        self.flag.iter().for_each(|flag| flag.assert_settled(world));
    }
}

/// The task that polls: the one that did so last, or another one. What was woken is done with.
fn poller(world: &Arc<World>, flag: &mut Option<Arc<Flag>>, due: u64, by_another: bool) -> Waker {
    let is_usable = flag.as_ref().is_some_and(|flag| !flag.is_woken()) && !by_another;
    if !is_usable {
        *flag = Some(Flag::new(world, due));
    }
    let flag = flag.as_ref().expect("it was made");
    flag.wait_for(due);
    flag.clone().into()
}

impl Stage {
    pub(super) fn sleep(&self, at: At, is_timeout: bool) {
        let (at_ns, delay) = self.world.after(at);
        let future = if is_timeout {
            let is_finished = Arc::new(AtomicBool::new(false));
            let future = self.engine.timeout(delay, Finishing(is_finished.clone()));
            Waited::Timeout { future: Box::pin(future), is_finished }
        } else {
            Waited::Sleep(self.engine.sleep(delay))
        };
        lock(&self.sleeps).push(Waiting { future, at_ns, flag: None });
    }

    pub(super) fn poll(&self, pick: u16, by_another: bool) {
        if pick % 4 == 0 {
            return self.poll_interval(pick / 4, by_another);
        }
        let (world, mut sleeps) = (&self.world, lock(&self.sleeps));
        let Some(index) = picked(pick, sleeps.len()) else { return };
        let Waiting { future, at_ns, flag } = &mut sleeps[index];
        let was_woken = flag.as_ref().is_some_and(|flag| flag.is_woken());
        let has_come = *at_ns <= world.now_ns();
        let (is_new, is_finished) = (flag.is_none(), future.is_finished());
        let waker = poller(world, flag, world.ceil(*at_ns), by_another);
        match future.poll(&mut Context::from_waker(&waker)) {
            Polled::Pending => {
                assert!(!was_woken || is_new, "it was woken, and is pending");
                assert!(!(is_finished || is_new && has_come), "its time has come");
                return;
            }
            Polled::Ready => assert!(has_come && !is_finished, "{at_ns} is early"),
            Polled::Finished => assert!(is_finished),
            Polled::Refused(error) => {
                assert!(!has_come, "{at_ns} has come, and it says {error}");
                self.expect_reason(error);
            }
        }
        sleeps.swap_remove(index);
    }

    pub(super) fn sleep_reset(&self, pick: u16, at: At) {
        let (world, mut sleeps) = (&self.world, lock(&self.sleeps));
        let (new_ns, delay) = world.after(at);
        let Some(index) = picked(pick, sleeps.len()) else { return };
        let Waiting { future: Waited::Sleep(sleep), at_ns, flag } = &mut sleeps[index] else {
            return;
        };
        let was_woken = flag.as_ref().is_some_and(|flag| flag.is_woken());
        flag.iter().for_each(|flag| flag.wait_for(world.ceil(new_ns)));
        sleep.reset(delay);
        *at_ns = new_ns;
        if was_woken || self.is_stopped() {
            // The next poll schedules a new timer.
            self.forget(flag);
        }
    }

    /// Nobody is woken for what was polled by this task any more, or not at a known time.
    fn forget(&self, flag: &mut Option<Arc<Flag>>) {
        flag.take().iter().for_each(|flag| flag.set_free());
    }

    pub(super) fn sleep_drop(&self, pick: u16) {
        let mut sleeps = lock(&self.sleeps);
        if let Some(index) = picked(pick, sleeps.len()) {
            sleeps.swap_remove(index);
        }
    }

    pub(super) fn finish(&self, pick: u16) {
        let sleeps = lock(&self.sleeps);
        let Some(index) = picked(pick, sleeps.len()) else { return };
        if let Waited::Timeout { is_finished, .. } = &sleeps[index].future {
            is_finished.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn interval(&self, at: At, period: At) {
        let (next_ns, delay) = self.world.after(at);
        let period_ns = self.world.after(period).0.saturating_sub(self.world.now_ns()).max(1);
        let Some(next) = self.instant_in(delay) else { return };
        let interval = self.engine.interval_at(next, Duration::from_nanos(period_ns));
        let next = Some(next);
        lock(&self.intervals).push(Ticking { interval, next, next_ns, period_ns, flag: None });
    }

    fn poll_interval(&self, pick: u16, by_another: bool) {
        let (world, mut intervals) = (&self.world, lock(&self.intervals));
        let Some(index) = picked(pick, intervals.len()) else { return };
        let Ticking { interval, next, next_ns, period_ns, flag } = &mut intervals[index];
        let was_woken = flag.as_ref().is_some_and(|flag| flag.is_woken());
        let (is_new, has_come) = (flag.is_none(), *next_ns <= world.now_ns());
        let waker = poller(world, flag, world.ceil(*next_ns), by_another);
        match interval.poll_try_tick(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                assert!(!was_woken || is_new, "it was woken, and is pending");
                assert!(!(is_new && has_come), "its time has come");
            }
            Poll::Ready(Ok(tick)) => {
                assert!(has_come, "a tick is early");
                assert_eq!(Some(tick), *next, "a tick is not where it should be");
                *next = tick.checked_add(Duration::from_nanos(*period_ns));
                *next_ns = next_ns.saturating_add(*period_ns);
                *flag = None;
                if next.is_none() || *next_ns == u64::MAX {
                    intervals.swap_remove(index);
                }
            }
            Poll::Ready(Err(error)) => {
                self.expect_reason(error);
                intervals.swap_remove(index);
            }
        }
    }

    // === the delay queue ===

    pub(super) fn insert(&self, at: At) {
        let (at_ns, delay) = self.world.after(at);
        let queue = &mut *lock(&self.queue);
        let number = queue.inserted;
        queue.inserted += 1;
        let due = self.world.ceil(at_ns);
        queue.expect(|first| first.min(due));
        // The number of its token is its own: it is no item of the world.
        let key = queue.queue.insert(self.world.token(number), delay);
        queue.items.push((key, number, due));
    }

    pub(super) fn remove(&self, pick: u16) {
        let queue = &mut *lock(&self.queue);
        let Some(index) = picked(pick, queue.items.len()) else { return };
        let (key, number, _) = queue.items.swap_remove(index);
        if queue.items.is_empty() {
            // Who waits is told that it is empty.
            queue.set_free();
        }
        let removed = queue.queue.remove(key).map(|token| token.number);
        assert_eq!(removed, Some(number));
        queue.expect(|first| first);
    }

    pub(super) fn move_item(&self, pick: u16, at: At) {
        let queue = &mut *lock(&self.queue);
        let Some(index) = picked(pick, queue.items.len()) else { return };
        let (at_ns, delay) = self.world.after(at);
        queue.items[index].2 = self.world.ceil(at_ns);
        queue.expect(|first| first);
        assert!(queue.queue.reset(queue.items[index].0, delay), "it is there");
    }

    pub(super) fn poll_queue(&self, by_another: bool) {
        let (world, queue) = (&self.world, &mut *lock(&self.queue));
        let first = queue.first();
        let was_woken = queue.flag.as_ref().is_some_and(|flag| flag.is_woken());
        let waker = poller(world, &mut queue.flag, first, by_another);
        let now = world.now();
        match queue.queue.poll_try_expired(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                assert!(!queue.items.is_empty(), "it waits for nothing");
                assert!(!was_woken || first > now, "it was woken, and is pending");
            }
            Poll::Ready(Ok(None)) => {
                assert!(queue.items.is_empty(), "it lost {:?}", queue.items);
                queue.set_free();
                queue.flag = None;
            }
            Poll::Ready(Ok(Some(expired))) => {
                let number = expired.get_ref().number;
                let index = queue.items.iter().position(|item| item.1 == number);
                let (_, _, due) = queue.items.swap_remove(index.expect("it comes out once"));
                assert!(due <= now, "{number} comes out at {now}, and is due at {due}");
                queue.set_free();
                queue.flag = None;
            }
            Poll::Ready(Err(error)) => {
                assert!(first > now, "something is due, and it says {error}");
                self.expect_reason(error);
                queue.set_free();
                queue.flag = None;
            }
        }
        assert_eq!(queue.queue.len(), queue.items.len());
    }
}

// === impl Queue ===

impl Queue {
    pub(super) fn new(engine: &Engine) -> Queue {
        Queue { queue: engine.delay_queue(), items: Vec::new(), inserted: 0, flag: None }
    }

    fn first(&self) -> u64 {
        self.items.iter().map(|item| item.2).min().unwrap_or(Tick::NEVER.get())
    }

    /// Who waits is woken when the first is due.
    fn expect(&self, due: impl Fn(u64) -> u64) {
        self.flag.iter().for_each(|flag| flag.wait_also_for(due(self.first())));
    }

    pub(super) fn set_free(&self) {
        self.flag.iter().for_each(|flag| flag.set_free());
    }

    pub(super) fn assert_settled(&self, world: &World) {
        self.flag.iter().for_each(|flag| flag.assert_settled(world));
    }

    pub(super) fn clear(&mut self) {
        self.set_free();
        self.queue.clear();
    }
}
