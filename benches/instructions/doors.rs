//! Operations of the keyed timers and of the sleeps, on a warm engine that is driven by hand.
//!
//! *Invariant*: the engine's own counts tell afterwards that each operation was what its name says.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::rt::Timer;
use tickless::future::{HyperTimer, Sleep};
use tickless::{Driver, Engine, ManualClock};
use tickless_keyed::KeyedTimers;

use crate::OPERATIONS;
use crate::stage::{ROUNDS, Range, delays};

/// Timers under keys, the first of which is given, and a delay for each operation.
pub(crate) struct Keyed {
    timers: KeyedTimers<u64>,
    first: u64,
    delays: Vec<Duration>,
    before: u64,
}

/// An engine for sleeps, and a delay for each operation.
pub(crate) struct Sleeps {
    engine: Engine,
    timer: HyperTimer,
    delays: Vec<Duration>,
    /// Those of connections, one for each operation.
    idle: Vec<Sleep>,
    before: u64,
}

/// Is ready when it is polled again.
struct Once(bool);

/// Timers as of requests.
const DELAYS_MS: Range = (10_000, 30_000);
/// From here on, timers are later than all of those.
const DELAYS_MS_END: Duration = Duration::from_millis(DELAYS_MS.1);

fn engine() -> Engine {
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    builder.build().expect("it is valid")
}

// === impl Once ===

impl Future for Once {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

// === impl Keyed ===

impl Keyed {
    /// Timers of which the oldest makes way for one under a new key, again and again.
    pub(crate) fn with_requests() -> Keyed {
        let timers = KeyedTimers::with_engine(&engine());
        let mut keyed = Keyed { timers, first: 0, delays: delays(DELAYS_MS), before: 0 };
        (0..OPERATIONS as u64).for_each(|n| keyed.schedule(n, keyed.delays[n as usize]));
        (0..ROUNDS).for_each(|_| keyed.replace());
        keyed.before = keyed.timers.engine().stats().scheduled;
        keyed
    }

    fn schedule(&self, key: u64, delay: Duration) {
        self.timers.schedule_keyed(key, delay, || ()).expect("the engine runs");
    }

    /// Cancels the oldest timer and schedules one under a new key.
    #[inline]
    pub(crate) fn replace(&mut self) {
        for &delay in &self.delays {
            black_box(self.timers.cancel(&self.first));
            self.schedule(self.first + OPERATIONS as u64, delay);
            self.first += 1;
        }
    }

    /// Each operation scheduled a timer, and cancelled one.
    pub(crate) fn all_replaced(self) {
        let stats = self.timers.engine().stats();
        assert_eq!(stats.scheduled - self.before, OPERATIONS as u64);
        assert_eq!((stats.cancelled, self.timers.len()), (self.first, OPERATIONS));
    }
}

// === impl Sleeps ===

impl Sleeps {
    /// Nothing but seats.
    pub(crate) fn with_seats() -> Sleeps {
        Sleeps::after(Sleeps::poll_and_drop, engine())
    }

    /// The same, after requests, by the system's clock.
    pub(crate) fn with_heads() -> Sleeps {
        let builder = Engine::builder().driver(Driver::Caller).shards(1);
        Sleeps::after(Sleeps::head, builder.build().expect("it is valid"))
    }

    /// The same by a clock moved by hand.
    pub(crate) fn with_timeouts() -> Sleeps {
        Sleeps::after(Sleeps::limit, engine())
    }

    /// Sleeps that are pending, and were moved before.
    pub(crate) fn with_connections() -> Sleeps {
        let mut sleeps = Sleeps::after(Sleeps::poll_and_drop, engine());
        sleeps.idle = sleeps.delays.iter().map(|&delay| sleeps.engine.sleep(delay)).collect();
        (0..ROUNDS).for_each(|_| sleeps.move_each());
        sleeps.before = sleeps.engine.stats().reset;
        sleeps
    }

    fn after(operation: fn(&mut Sleeps), engine: Engine) -> Sleeps {
        let timer = HyperTimer::new(&engine);
        let (delays, idle) = (delays(DELAYS_MS), Vec::new());
        let mut sleeps = Sleeps { engine, timer, delays, idle, before: 0 };
        (0..ROUNDS).for_each(|_| operation(&mut sleeps));
        sleeps.before = sleeps.engine.stats().cancelled;
        sleeps
    }

    /// Makes a sleep, polls it once, and drops it.
    #[inline]
    pub(crate) fn poll_and_drop(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for &delay in &self.delays {
            let sleep = pin!(self.engine.sleep(delay));
            black_box(sleep.poll(&mut cx).is_pending());
        }
    }

    /// Times the head of a request as hyper does.
    #[inline]
    pub(crate) fn head(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for &delay in &self.delays {
            let deadline = self.timer.now() + delay;
            let mut sleep = self.timer.sleep_until(deadline);
            black_box(sleep.as_mut().poll(&mut cx).is_pending());
        }
    }

    /// Limits a future that waits once.
    #[inline]
    pub(crate) fn limit(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for &delay in &self.delays {
            let mut answer = pin!(self.engine.timeout(delay, Once(false)));
            black_box(answer.as_mut().poll(&mut cx).is_pending());
            black_box(answer.as_mut().poll(&mut cx).is_ready());
        }
    }

    /// Moves the sleep of each connection, and polls it.
    #[inline]
    pub(crate) fn move_each(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        for (sleep, &delay) in self.idle.iter_mut().zip(&self.delays) {
            // Later than the operation before it.
            sleep.reset(delay + DELAYS_MS_END);
            black_box(Pin::new(sleep).poll(&mut cx).is_pending());
        }
    }

    /// Each operation moved a timer.
    pub(crate) fn all_moved(self) {
        let stats = self.engine.stats();
        assert_eq!(stats.reset - self.before, OPERATIONS as u64);
        assert_eq!(self.engine.len(), OPERATIONS);
    }

    /// Each operation cancelled a timer.
    pub(crate) fn all_cancelled(self) {
        let stats = self.engine.stats();
        assert_eq!(stats.cancelled - self.before, OPERATIONS as u64);
        assert_eq!(self.engine.len(), 0);
    }
}
