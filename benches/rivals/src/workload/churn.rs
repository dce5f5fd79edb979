//! The lane of request timeouts: a ring of timers, of which the oldest is cancelled and replaced.

use std::time::Duration;

use crate::contender::Producer;
use crate::drive::{BURST, Lane};
use crate::random::Random;
use crate::slots::Slots;

/// One thread's ring.
pub(crate) struct Churn<P: Producer> {
    producer: P,
    ring: Slots<P::Timer>,
    oldest: usize,
    random: Random,
    token: u64,
    left: u64,
    cancelled: u64,
}

/// A delay that no timer of the workload lives to see.
#[inline]
pub(super) fn delay(random: &mut Random) -> Duration {
    random.seconds(10, 30)
}

// === impl Churn ===

impl<P: Producer> Churn<P> {
    /// For the `lane`th thread: a ring of `ring` timers, then `steps` steps.
    pub(crate) fn new(producer: P, lane: u64, ring: usize, steps: u64) -> Churn<P> {
        Churn {
            producer,
            ring: Slots::new(ring),
            oldest: 0,
            random: Random::new(lane + 1),
            // Tokens differ between threads: some contenders take them for names.
            token: (lane + 1) << 40,
            left: steps,
            cancelled: 0,
        }
    }

    /// Timers that said they were cancelled in time.
    pub(crate) fn cancelled(&self) -> u64 {
        self.cancelled
    }

    #[inline]
    fn schedule(&mut self, at: usize) {
        let delay = delay(&mut self.random);
        self.producer.schedule(self.ring.at(at), delay, self.token);
        self.token += 1;
    }

    /// So many steps at once.
    pub(super) fn steps(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
        }
    }

    #[inline]
    fn step(&mut self) {
        let at = self.oldest;
        self.cancelled += u64::from(self.producer.cancel(self.ring.at(at)));
        self.schedule(at);
        self.oldest = if at + 1 == self.ring.len() { 0 } else { at + 1 };
    }
}

impl<P: Producer> Lane for Churn<P> {
    fn prepare(&mut self) {
        for at in 0..self.ring.len() {
            self.schedule(at);
        }
    }

    fn burst(&mut self) -> bool {
        let steps = self.left.min(BURST);
        self.steps(steps);
        self.left -= steps;
        self.left > 0
    }
}
