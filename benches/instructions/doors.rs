//! Operations of the keyed timers and of the sleeps, on a warm engine that is driven by hand.
//!
//! *Invariant*: the engine's own counts tell afterwards that each operation was what its name says.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tickless::keyed::KeyedTimers;
use tickless::{Engine, ManualClock};

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
    delays: Vec<Duration>,
    before: u64,
}

/// Timers as of requests.
const DELAYS_MS: Range = (10_000, 30_000);

fn engine() -> Engine {
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    builder.build().expect("it is valid")
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
        let mut sleeps = Sleeps { engine: engine(), delays: delays(DELAYS_MS), before: 0 };
        (0..ROUNDS).for_each(|_| sleeps.poll_and_drop());
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

    /// Each operation cancelled a timer.
    pub(crate) fn all_cancelled(self) {
        let stats = self.engine.stats();
        assert_eq!(stats.cancelled - self.before, OPERATIONS as u64);
        assert_eq!(self.engine.len(), 0);
    }
}
