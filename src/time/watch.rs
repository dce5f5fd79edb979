//! A thread's watch: the engine's clock, carried on by the processor's cycle counter.
//!
//! Reading the system's clock is the dearest part of a schedule. A watch is set by the clock and
//! then carried on by the cycle counter for a few microseconds, which takes less than half as
//! long.
//!
//! *Invariants*: a watch never shows less than the clock would, so a deadline reckoned from it is
//! never early by the clock; and it is ahead of the clock by an eighth of [`LASTS_NS`] at most, or
//! by little more than the whole where the thread was interrupted while it set its watch:
//! - the count at which it is set is read *before* the clock;
//! - its rate is measured so that it can only come out too high, and an eighth is added: a system
//!   slews its clock by a tenth at most;
//! - it is set anew after [`LASTS_NS`], and whenever the count is not what it should be (the
//!   thread moved, the machine slept);
//! - each setting is held against the last one, and a watch that went slow is not used again.
//!
//! Where the system does not keep time by the counter, a watch is the clock.
//!
//! *Owner*: one thread.

use super::{Clock, cycles};

/// How long a watch goes on its own.
const LASTS_NS: u64 = 1 << 15;

/// Rates are in nanoseconds per cycle, times 2^32.
const RATE_BITS: u32 = 32;

/// Cycles that the first measurement of the rate takes at least.
const MEASURE_CYCLES: u64 = 1 << 21;

/// A clock is read in this many cycles, unless the thread was interrupted.
pub(super) const READ_CYCLES: u64 = 1 << 12;

/// Counts further apart are not compared.
const COMPARE_CYCLES: u64 = 1 << 31;

/// A moment that was noted down before it was known which clock it is for.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub(super) cycles: u64,
}

/// A clock for one thread.
#[derive(Debug)]
pub struct Watch {
    set_ns: u64,
    set_cycles: u64,
    rate: u64,
    /// How many cycles a setting lasts; zero: it is the clock that is read.
    lasts_cycles: u64,
    is_slow: bool,
}

// === impl Moment ===

impl Moment {
    /// Now.
    #[inline]
    pub fn now() -> Moment {
        Moment { cycles: cycles::peek() }
    }
}

// === impl Watch ===

impl Watch {
    /// A watch that was never set.
    pub fn new() -> Watch {
        Watch { set_ns: 0, set_cycles: 0, rate: 0, lasts_cycles: 0, is_slow: false }
    }

    /// Nanoseconds since `clock` was made, now. A watch is read with one clock only.
    #[inline]
    pub fn now_ns(&mut self, clock: &Clock) -> u64 {
        if self.lasts_cycles == 0 {
            return self.measure(clock);
        }
        // SAFETY: the watch was set, so the counter keeps time.
        self.at_ns(clock, Moment { cycles: unsafe { cycles::read() } })
    }

    /// As [`Watch::now_ns`], at a moment of this thread not long ago, or later.
    #[inline]
    pub fn at_ns(&mut self, clock: &Clock, moment: Moment) -> u64 {
        let passed_cycles = moment.cycles.wrapping_sub(self.set_cycles);
        if passed_cycles < self.lasts_cycles {
            self.set_ns + self.passed_ns(passed_cycles)
        } else {
            self.set(clock)
        }
    }

    /// Nanoseconds that `cycles` take, rounded up. Fewer than 2^31 cycles.
    #[inline]
    fn passed_ns(&self, cycles: u64) -> u64 {
        ((cycles * self.rate) >> RATE_BITS) + 1
    }

    #[inline(never)]
    fn set(&mut self, clock: &Clock) -> u64 {
        if self.lasts_cycles == 0 {
            return self.measure(clock);
        }
        let before = Moment::now().cycles;
        let now_ns = clock.now_ns();
        let passed_cycles = Moment::now().cycles.wrapping_sub(self.set_cycles);
        if passed_cycles < COMPARE_CYCLES && now_ns > self.set_ns + self.passed_ns(passed_cycles) {
            self.is_slow = true;
            self.lasts_cycles = 0;
        }
        self.set_cycles = before;
        self.set_ns = now_ns;
        now_ns
    }

    /// Reads the clock, and finds out about the rate as soon as it can.
    #[inline(never)]
    fn measure(&mut self, clock: &Clock) -> u64 {
        let Some(start) = clock.start_cycles().filter(|_| !self.is_slow) else {
            return clock.now_ns();
        };
        let before = Moment::now().cycles;
        let now_ns = clock.now_ns();
        // The clock was started before its cycles were read, and is read now after them: the
        // cycles are too few for the time, if anything.
        let cycles = before.wrapping_sub(start);
        let is_quick = Moment::now().cycles.wrapping_sub(before) < READ_CYCLES;
        if is_quick && cycles >= MEASURE_CYCLES {
            let rate = (u128::from(now_ns + 1) << RATE_BITS) / u128::from(cycles);
            // What does not fit is no rate of any processor: the watch stays the clock.
            if let Ok(rate) = u32::try_from(rate + rate / 8 + 1) {
                self.rate = u64::from(rate);
                self.lasts_cycles = (LASTS_NS << RATE_BITS) / self.rate;
                self.set_cycles = before;
                self.set_ns = now_ns;
            }
        }
        now_ns
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::thread;

    /// A watch that is carried on by the counter, where this machine has one.
    fn running(clock: &Clock) -> Watch {
        let mut watch = Watch::new();
        while clock.start_cycles().is_some() && watch.lasts_cycles == 0 {
            watch.now_ns(clock);
        }
        watch
    }

    #[test]
    fn a_watch_is_never_behind_the_clock_and_not_far_ahead() {
        // More threads than processors, so that they are interrupted and moved.
        let threads = 2 * thread::available_parallelism().map_or(2, usize::from) + 1;
        let clock = Clock::system();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut watch = Watch::new();
                    for _ in 0..200_000 {
                        let before_ns = clock.now_ns();
                        let moment = Moment::now();
                        let first_ns = watch.at_ns(&clock, moment);
                        let now_ns = watch.now_ns(&clock);
                        let after_ns = clock.now_ns();
                        assert!(before_ns <= first_ns, "{before_ns} {first_ns}");
                        assert!(before_ns <= now_ns, "{before_ns} {now_ns}");
                        let ahead_ns = now_ns.saturating_sub(after_ns);
                        assert!(ahead_ns <= 2 * LASTS_NS, "{ahead_ns} ns ahead");
                    }
                });
            }
        });
    }

    #[test]
    fn a_clock_moved_by_hand_is_what_its_watch_shows() {
        let hand = super::super::ManualClock::new();
        let clock = Clock::manual(&hand);
        let mut watch = Watch::new();
        for ns in [0, 5, 7_000_000_000] {
            hand.move_to_ns(ns);
            assert_eq!(watch.now_ns(&clock), ns);
            assert_eq!(watch.at_ns(&clock, Moment::now()), ns);
        }
    }

    #[test]
    fn a_watch_of_a_clock_that_is_read_each_time_is_never_carried_on() {
        let clock = Clock::instant();
        let mut watch = Watch::new();
        let start_ns = clock.now_ns();
        while clock.now_ns() < start_ns + 3_000_000 {
            let before_ns = clock.now_ns();
            let now_ns = watch.now_ns(&clock);
            assert!(before_ns <= now_ns && now_ns <= clock.now_ns());
        }
        assert_eq!(watch.lasts_cycles, 0);
    }

    #[test]
    fn a_watch_that_went_slow_is_not_used_again() {
        let clock = Clock::system();
        let mut watch = running(&clock);
        if watch.lasts_cycles == 0 {
            return; // The system does not keep time by the counter here.
        }
        watch.rate /= 2;
        let set_ns = watch.set_ns;
        while clock.now_ns() < set_ns + 2 * LASTS_NS {}
        watch.now_ns(&clock);
        assert!(watch.is_slow);
        let before_ns = clock.now_ns();
        assert!(before_ns <= watch.now_ns(&clock));
        while clock.now_ns() < before_ns + 2_000_000 {}
        watch.now_ns(&clock);
        assert_eq!(watch.lasts_cycles, 0);
    }
}
