//! A thread's own clock: the engine's clock, carried on by the processor's cycle counter.
//!
//! Reading the system's clock is the most expensive part of a schedule. A thread clock is set by
//! the engine's clock and then carried on by the cycle counter for up to [`LASTS_NS`], which takes
//! less than half as long.
//!
//! *Invariants*: while the system keeps its time by the counter, a thread clock never shows less
//! than the clock would, so a deadline computed from it is never early by the clock. It runs ahead
//! by about 8 us at most; by 12 us if the system slewed its clock; by 41 us if the thread was
//! interrupted while it set it. It is never behind, because
//! - the count at which it is set is read *before* the clock;
//! - its rate is measured so that it can only come out too high, and a quarter is added: a system
//!   slews its clock by a tenth and 500 ppm at most, one way while it is measured and the other way
//!   later (`SLEW`);
//! - that takes two readings by the thread which are so close to each other ([`MEASURE_CYCLES`])
//!   that the machine cannot have been suspended in between: the counter may run on then, while the
//!   clock stands still;
//! - it is set anew after [`LASTS_NS`], and whenever the count is not what it should be (the thread
//!   moved, the machine slept);
//! - each setting is compared with the last one, and a thread clock that went slow is not used
//!   again;
//! - reapers ask the system now and then whether it has turned away from the counter (it takes a
//!   file, which a thread that schedules never opens). The next setting finds out, and no thread
//!   clock is used from then on. Until then a thread clock can be behind by what the counter missed
//!   since the setting.
//!
//! Where the system does not keep time by the counter, a thread clock reads the engine's clock.
//!
//! *Owner*: one thread.

use std::ops::RangeInclusive;

use super::{Clock, Scale, Tick, cycles};

/// How long a setting lasts.
pub const LASTS_NS: u64 = 1 << 15;

/// Rates are in nanoseconds per cycle, times 2^32.
pub const RATE_BITS: u32 = 32;

/// No processor counts slower or faster than this: 32 ns to 1/32 ns per cycle.
pub const RATES: RangeInclusive<u64> = 1 << (RATE_BITS - 5)..=1 << (RATE_BITS + 5);

/// Over how many cycles the rate is measured: about 1 ms to 10 ms.
pub const MEASURE_CYCLES: RangeInclusive<u64> = 1 << 21..=1 << 25;

/// Reading a clock takes fewer cycles than this, unless the thread was interrupted.
pub const READ_CYCLES: u64 = 1 << 12;

/// The slowest and the fastest rate of a system's clock while it is slewed, in parts of 10,000:
/// Linux permits a tenth by the length of its own tick, and 500 ppm by the frequency.
pub const SLEW: (u64, u64) = (8_995, 11_005);

/// A measured rate is raised by one part in this many.
pub const MARGIN: u64 = 4;

const _: () = assert!(SLEW.0 * (MARGIN + 1) > SLEW.1 * MARGIN, "slewed both ways, and not behind");

/// A moment that is noted before it is known which clock it is for.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub(super) cycles: u64,
}

/// A clock for one thread.
#[derive(Debug)]
pub struct ThreadClock {
    /// Where it was set; before its rate is known, the reading that this is measured from.
    set_ns: u64,
    set_cycles: u64,
    /// It was set, or has such a reading.
    is_begun: bool,
    rate: u64,
    /// How many cycles a setting lasts; zero: the engine's clock is read each time.
    lasts_cycles: u64,
    /// It went slow, or the counter cannot be trusted any more.
    is_over: bool,
    scale: Scale,
    /// That of the last reading of the engine's clock, and its end.
    tick: Tick,
    tick_ends_ns: u64,
}

/// A reading of the clock between two readings of the counter.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The count before.
    pub before_cycles: u64,
    /// The time by the clock.
    pub now_ns: u64,
    /// The count after it.
    pub after_cycles: u64,
}

// === impl Moment ===

impl Moment {
    /// Now.
    #[inline]
    pub fn now() -> Moment {
        Moment { cycles: cycles::peek() }
    }
}

// === impl ThreadClock ===

impl ThreadClock {
    /// A clock that was never set, for ticks of this scale.
    pub fn new(scale: Scale) -> ThreadClock {
        ThreadClock {
            set_ns: 0,
            set_cycles: 0,
            is_begun: false,
            rate: 0,
            lasts_cycles: 0,
            is_over: false,
            scale,
            tick: Tick::ZERO,
            tick_ends_ns: 0,
        }
    }

    /// The tick that the engine's clock had reached when this thread last read that one: before the
    /// last reading of the thread's clock by [`LASTS_NS`] at most, and never ahead.
    #[inline]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// Nanoseconds since `clock` was made. A thread clock is read with one `clock` only.
    #[inline]
    pub fn now_ns(&mut self, clock: &Clock) -> u64 {
        if self.lasts_cycles == 0 {
            return self.measure(clock);
        }
        // SAFETY: the thread clock was set, so the counter keeps time.
        self.at_ns(clock, Moment { cycles: unsafe { cycles::read() } })
    }

    /// As [`ThreadClock::now_ns`], but does not wait for earlier instructions to finish. The
    /// result may be behind the clock by tens of microseconds, so no deadline is computed from it.
    #[inline]
    pub fn glance_ns(&mut self, clock: &Clock) -> u64 {
        if self.lasts_cycles == 0 {
            return self.measure(clock);
        }
        // SAFETY: the thread clock was set, so the counter keeps time.
        self.at_ns(clock, Moment { cycles: unsafe { cycles::glance() } })
    }

    /// As [`ThreadClock::now_ns`], at a recent moment of this thread, or later.
    #[inline]
    pub fn at_ns(&mut self, clock: &Clock, moment: Moment) -> u64 {
        match self.shown(moment.cycles) {
            Some(ns) => ns,
            None => self.set(clock),
        }
    }

    /// The time at that count, if the thread clock need not be set.
    #[inline]
    pub fn shown(&self, cycles: u64) -> Option<u64> {
        let passed_cycles = cycles.wrapping_sub(self.set_cycles);
        (passed_cycles < self.lasts_cycles).then(|| {
            // Less than LASTS_NS << RATE_BITS, so that it fits.
            self.set_ns + ((passed_cycles * self.rate) >> RATE_BITS) + 1
        })
    }

    #[inline(never)]
    fn set(&mut self, clock: &Clock) -> u64 {
        if self.lasts_cycles == 0 {
            return self.measure(clock);
        }
        // SAFETY: the thread clock was set, so the counter kept time.
        let reading = unsafe { Reading::of(clock) };
        if cycles::still_keep_time() {
            self.hold_against(&reading);
        } else {
            self.end();
        }
        self.note(reading.now_ns)
    }

    /// Notes the tick of a reading of the engine's clock, and returns that.
    #[inline]
    fn note(&mut self, now_ns: u64) -> u64 {
        if now_ns < self.tick_ends_ns { now_ns } else { self.begin_tick(now_ns) }
    }

    #[cold]
    #[inline(never)]
    fn begin_tick(&mut self, now_ns: u64) -> u64 {
        self.tick = self.scale.floor(now_ns);
        self.tick_ends_ns = (self.tick.get() + 1).saturating_mul(self.scale.tick_ns());
        now_ns
    }

    /// Sets the thread clock, and ends its use if it went slow since the last time.
    pub fn hold_against(&mut self, reading: &Reading) {
        // The clock was read before this count: the thread clock shows too much, if anything.
        let passed_cycles = reading.after_cycles.wrapping_sub(self.set_cycles);
        let passed_ns = (u128::from(passed_cycles) * u128::from(self.rate)) >> RATE_BITS;
        if u128::from(reading.now_ns) > u128::from(self.set_ns) + passed_ns + 1 {
            self.end();
        }
        self.set_cycles = reading.before_cycles;
        self.set_ns = reading.now_ns;
    }

    /// From now on the engine's clock is read each time.
    fn end(&mut self) {
        self.is_over = true;
        self.lasts_cycles = 0;
    }

    /// Reads the clock, and learns the rate as soon as possible.
    #[inline(never)]
    fn measure(&mut self, clock: &Clock) -> u64 {
        match clock.goes_by_cycles() && !self.is_over {
            true => self.measure_rate(clock),
            false => self.note(clock.now_ns()),
        }
    }

    /// Out of line, so that where there is no rate nobody pays for it.
    #[inline(never)]
    fn measure_rate(&mut self, clock: &Clock) -> u64 {
        // SAFETY: a clock goes by the counter only if that kept time.
        let reading = unsafe { Reading::of(clock) };
        if cycles::still_keep_time() {
            self.learn(&reading);
        } else {
            self.end();
        }
        self.note(reading.now_ns)
    }

    /// Takes the rate from this reading and an earlier one, if there is one that is good enough.
    pub fn learn(&mut self, reading: &Reading) {
        let &Reading { before_cycles, now_ns, after_cycles } = reading;
        if after_cycles.wrapping_sub(before_cycles) >= READ_CYCLES {
            return;
        }
        // The clock was read before the earlier count, and after this one: the cycles are too few
        // for the time, if anything.
        let cycles = before_cycles.wrapping_sub(self.set_cycles);
        if self.is_begun && cycles < *MEASURE_CYCLES.start() {
            return;
        }
        let is_measured = self.is_begun && cycles <= *MEASURE_CYCLES.end();
        let passed_ns = now_ns.saturating_sub(self.set_ns).saturating_add(1);
        let rate = is_measured.then(|| (u128::from(passed_ns) << RATE_BITS) / u128::from(cycles));
        let rate = rate.and_then(|rate| u64::try_from(rate).ok());
        (self.is_begun, self.set_ns) = (true, now_ns);
        match rate.filter(|rate| RATES.contains(rate)) {
            Some(rate) => {
                self.rate = rate + rate / MARGIN + 1;
                self.lasts_cycles = (LASTS_NS << RATE_BITS) / self.rate;
                self.set_cycles = before_cycles;
            }
            // There was no reading that counts, or the counter was set back or ahead meanwhile:
            // this is the one to measure from.
            None => self.set_cycles = after_cycles,
        }
    }
}

// === impl Reading ===

impl Reading {
    /// # Safety
    /// The counter has kept time at some time.
    unsafe fn of(clock: &Clock) -> Reading {
        // SAFETY: as the caller promises.
        let before_cycles = unsafe { cycles::read() };
        let now_ns = clock.now_ns();
        // SAFETY: as the caller promises.
        let after_cycles = unsafe { cycles::read() };
        Reading { before_cycles, now_ns, after_cycles }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn unset() -> ThreadClock {
        ThreadClock::new(Scale::new(Duration::from_nanos(5)).unwrap())
    }

    /// A counter of three cycles per nanosecond, and a clock that the system slews.
    struct Pretended {
        cycles: u64,
        /// In 10,000 parts of a nanosecond.
        time: u64,
    }

    impl Pretended {
        /// A counter and a clock that were started long ago, and a thread clock that was set.
        fn set(slew: u64) -> (Pretended, ThreadClock) {
            let mut pretended = Pretended { cycles: 7 << 50, time: 0 };
            let mut watch = unset();
            for _ in 0..2 {
                assert_eq!(watch.lasts_cycles, 0);
                watch.learn(&pretended.reading());
                pretended.pass(1_000_000, slew);
            }
            watch.learn(&pretended.reading());
            assert!(watch.lasts_cycles > 0);
            (pretended, watch)
        }

        fn pass(&mut self, ns: u64, slew: u64) {
            self.cycles += 3 * ns;
            self.time += ns * slew;
        }

        fn now_ns(&self) -> u64 {
            self.time / 10_000
        }

        fn reading(&self) -> Reading {
            let (before_cycles, now_ns) = (self.cycles, self.now_ns());
            Reading { before_cycles, now_ns, after_cycles: before_cycles + 60 }
        }
    }

    #[test]
    fn a_clock_that_is_slewed_both_ways_is_not_ahead_of_its_watch() {
        for (measured, later) in [SLEW, (SLEW.1, SLEW.0), (10_000, 10_000)] {
            let (mut pretended, mut watch) = Pretended::set(measured);
            let (mut settings, mut most_ahead_ns) = (0, 0);
            // The first step after each setting is so small that a part of a nanosecond counts.
            let mut step_ns = 1;
            while settings < 50 {
                pretended.pass(step_ns, later);
                step_ns = 100;
                let now_ns = pretended.now_ns();
                if let Some(shown_ns) = watch.shown(pretended.cycles) {
                    assert!(shown_ns >= now_ns, "behind by {} ns", now_ns - shown_ns);
                    most_ahead_ns = most_ahead_ns.max(shown_ns - now_ns);
                } else {
                    watch.hold_against(&pretended.reading());
                    assert!(!watch.is_over);
                    (settings, step_ns) = (settings + 1, 1);
                }
            }
            let limit_ns = LASTS_NS / if measured == later { 4 } else { 2 };
            assert!((1..limit_ns).contains(&most_ahead_ns), "ahead by {most_ahead_ns} ns");
        }
    }

    #[test]
    fn a_counter_that_slows_or_stands_still_is_noticed_at_the_next_setting_however_late_that_is() {
        for pause_ns in [LASTS_NS, 1_000_000, 60_000_000_000] {
            for missed_cycles in [pause_ns, 3 * pause_ns] {
                let (mut pretended, mut watch) = Pretended::set(10_000);
                pretended.pass(pause_ns, 10_000);
                watch.hold_against(&pretended.reading());
                assert!(!watch.is_over);
                pretended.pass(pause_ns, 10_000);
                pretended.cycles -= missed_cycles;
                watch.hold_against(&pretended.reading());
                assert!(watch.is_over && watch.shown(pretended.cycles).is_none());
            }
        }
    }

    #[test]
    fn no_rate_is_taken_of_a_counter_that_was_set_back_or_ahead() {
        let start = 7 << 50;
        for cycles in [start - (1 << 30), 5 << 20, start + (1 << 40)] {
            let mut pretended = Pretended { cycles: start, time: 0 };
            let mut watch = unset();
            watch.learn(&pretended.reading());
            (pretended.cycles, pretended.time) = (cycles, 10_000 * 1_000_000);
            watch.learn(&pretended.reading());
            assert_eq!(watch.lasts_cycles, 0);
            pretended.pass(1_000_000, 10_000);
            watch.learn(&pretended.reading());
            assert!(watch.lasts_cycles > 0, "it is measured from there");
        }
    }

    #[test]
    fn a_rate_is_taken_over_a_few_milliseconds_and_if_a_processor_may_have_it() {
        let (shortest, longest) = (1 << 21, 1 << 25);
        for (cycles, passed_ns, is_taken) in [
            (shortest - 1, 1_000_000, false),
            (shortest, 1_000_000, true),
            (longest, 10_000_000, true),
            (longest + 1, 10_000_000, false),
            // Of 32 cycles per nanosecond, and of one in 32; and of more and fewer.
            (longest, longest / 32, true),
            (longest, longest / 33, false),
            (shortest, shortest * 32 - 1, true),
            (shortest, shortest * 32, false),
        ] {
            let mut watch = unset();
            let mut pretended = Pretended { cycles: 7 << 50, time: 0 };
            let first = pretended.reading();
            watch.learn(&first);
            pretended.cycles = first.after_cycles + cycles;
            pretended.time = 10_000 * passed_ns;
            watch.learn(&pretended.reading());
            assert_eq!(watch.lasts_cycles > 0, is_taken, "{cycles} cycles in {passed_ns} ns");
        }
    }

    #[test]
    fn a_watch_is_not_behind_because_the_counter_ran_on_while_the_machine_was_suspended() {
        for suspended_ns in [20_000_000, 60_000_000_000] {
            let mut pretended = Pretended { cycles: 7 << 50, time: 0 };
            let mut watch = unset();
            watch.learn(&pretended.reading());
            pretended.pass(1_000_000, 10_000);
            pretended.cycles += 3 * suspended_ns;
            for _ in 0..3 {
                watch.learn(&pretended.reading());
                for _ in 0..10_000 {
                    pretended.pass(100, 10_000);
                    let shown = watch.shown(pretended.cycles);
                    assert!(shown.is_none_or(|ns| ns >= pretended.now_ns()));
                }
            }
            assert!(watch.lasts_cycles > 0);
        }
    }

    #[test]
    fn a_watch_is_never_behind_the_clock_and_not_far_ahead() {
        // More threads than processors, so that they are interrupted and moved.
        let threads = 2 * thread::available_parallelism().map_or(2, usize::from) + 1;
        let clock = Clock::system();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut watch = unset();
                    for _ in 0..200_000 {
                        let before_ns = clock.now_ns();
                        let moment = Moment::now();
                        let first_ns = watch.at_ns(&clock, moment);
                        let now_ns = watch.now_ns(&clock);
                        let after_ns = clock.now_ns();
                        assert!(before_ns <= first_ns, "{before_ns} {first_ns}");
                        assert!(before_ns <= now_ns, "{before_ns} {now_ns}");
                        let tick_ns = 5 * watch.tick().get();
                        let least_ns = now_ns.saturating_sub(2 * LASTS_NS);
                        assert!((least_ns..=after_ns).contains(&tick_ns));
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
        let mut watch = unset();
        for ns in [0, 5, 7_000_000_000] {
            hand.move_to_ns(ns);
            assert_eq!(watch.now_ns(&clock), ns);
            assert_eq!(watch.at_ns(&clock, Moment::now()), ns);
            assert_eq!(watch.tick(), Tick::new(ns / 5));
        }
    }

    #[test]
    fn a_watch_that_went_slow_is_not_used_again() {
        let clock = Clock::system();
        if !clock.goes_by_cycles() {
            return; // The system does not keep time by the counter here.
        }
        let mut watch = unset();
        while watch.lasts_cycles == 0 {
            watch.now_ns(&clock);
        }
        watch.rate /= 2;
        // A setting during which the thread is interrupted shows more than the clock, and notices
        // nothing: the next one does.
        while !watch.is_over {
            let set_ns = watch.set_ns;
            while clock.now_ns() < set_ns + 2 * LASTS_NS {}
            watch.now_ns(&clock);
        }
        let before_ns = clock.now_ns();
        assert!(before_ns <= watch.now_ns(&clock));
        while clock.now_ns() < before_ns + 2_000_000 {}
        watch.now_ns(&clock);
        assert_eq!(watch.lasts_cycles, 0);
    }
}
