//! The hashed wheel's operations, on a warm timer that is driven by hand.
//!
//! *Invariant*: the engine's own counts tell afterwards that each operation was what its name says.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use tickless::ManualClock;
use tickless_netty::{HashedWheelTimer, IntoTask, Timeout, TimerTask};

use crate::OPERATIONS;
use crate::stage::{ROUNDS, Range, delays};

/// A timer, timeouts of it, and a delay for each operation.
pub(crate) struct Hashed {
    timer: HashedWheelTimer,
    task: Arc<dyn TimerTask>,
    waiting: VecDeque<Timeout>,
    delays: Vec<Duration>,
    before: u64,
}

/// When what is due soon has expired.
const FIRED: Duration = Duration::from_millis(40);

// === impl Hashed ===

impl Hashed {
    /// Timeouts of which the oldest makes way for a new one, again and again.
    pub(crate) fn with_requests() -> Hashed {
        let mut hashed = Hashed::new((10_000, 30_000));
        hashed.make();
        (0..ROUNDS).for_each(|_| hashed.replace());
        hashed.before = hashed.timer.stats().scheduled;
        hashed
    }

    /// Timeouts that nobody keeps, and that are due when the clock has moved.
    pub(crate) fn with_due() -> Hashed {
        let mut hashed = Hashed::new((1, 31));
        for _ in 0..ROUNDS {
            hashed.make();
            hashed.waiting.clear();
            hashed.expire();
        }
        hashed.make();
        hashed.waiting.clear();
        hashed.before = hashed.timer.stats().fired;
        hashed
    }

    fn new(range: Range) -> Hashed {
        let builder = HashedWheelTimer::builder().tick_duration(Duration::from_millis(1));
        let timer = builder.manual_clock(&ManualClock::new()).build().expect("it is valid");
        Hashed {
            timer,
            task: (|timeout: &Timeout| _ = black_box(timeout.is_expired())).into_task(),
            waiting: VecDeque::with_capacity(OPERATIONS + 1),
            delays: delays(range),
            before: 0,
        }
    }

    fn make(&mut self) {
        for &delay in &self.delays {
            let timeout = self.timer.new_timeout(self.task.clone(), delay);
            self.waiting.push_back(timeout.expect("the timer runs"));
        }
    }

    /// Cancels the oldest timeout and makes a new one of a task that is shared.
    #[inline]
    pub(crate) fn replace(&mut self) {
        for &delay in &self.delays {
            let oldest = self.waiting.pop_front().expect("there is one for each operation");
            black_box(oldest.cancel());
            drop(oldest);
            let timeout = self.timer.new_timeout(self.task.clone(), delay);
            self.waiting.push_back(timeout.expect("the timer runs"));
        }
    }

    /// Moves the clock over all that is due.
    #[inline]
    pub(crate) fn expire(&mut self) {
        black_box(self.timer.advance(FIRED)).expect("it is driven by hand");
    }

    /// Each operation made a timeout, and cancelled one.
    pub(crate) fn all_replaced(self) {
        let stats = self.timer.stats();
        assert_eq!(stats.scheduled - self.before, OPERATIONS as u64);
        assert_eq!(stats.cancelled, stats.scheduled - OPERATIONS as u64);
        assert!(self.waiting.iter().all(Timeout::cancel));
    }

    /// Each operation expired a timeout.
    pub(crate) fn all_expired(self) {
        assert_eq!(self.timer.stats().fired - self.before, OPERATIONS as u64);
        assert_eq!(self.timer.pending_timeouts(), 0);
    }
}
