//! The processor's cycle counter, for systems that keep their own time by it.
//!
//! *Tested by*: the unit tests below, and those of `time/thread_clock.rs`, which uses it.

pub(super) use counter::{glance, keep_time, look_again, peek, read, still_keep_time};

/// Linux on x86-64: the time stamp counter.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(elsewhere, loom, shuttle, miri))))]
mod counter {
    use std::arch::x86_64::{__rdtscp, _rdtsc};
    use std::fs::File;
    use std::io::{ErrorKind, Read};

    use crate::sync::{AtomicU32, AtomicU64, Ordering};

    static TRUST: Trust = Trust::new();

    /// Cycles (two to four seconds) after which the system is asked again.
    const ASK_CYCLES: u64 = 1 << 33;

    const UNASKED: u32 = 0;
    const GIVEN: u32 = 1;
    const WITHDRAWN: u32 = 2;

    /// Whether the counter is trusted. Trust that was withdrawn is never given again. Where the
    /// system does not say (`None`: no file can be opened, for example), things stay as they are.
    struct Trust {
        state: AtomicU32,
        asked_cycles: AtomicU64,
    }

    /// Whether the system itself keeps time by this counter: the counter then runs at one rate, on
    /// all processors alike, or the system's own clock would not. Asks the system now and then, for
    /// which it opens a file.
    pub(in super::super) fn keep_time() -> bool {
        TRUST.is_given_at_first(|| Some(can_be_read()? && is_clock_source()?));
        look_again();
        TRUST.is_given()
    }

    /// Asks the system again, if nobody has for a while: opens a file then.
    pub(in super::super) fn look_again() {
        if TRUST.is_given() {
            // SAFETY: trust was given, so the instruction exists.
            TRUST.look_again(unsafe { read() }, is_clock_source);
        }
    }

    /// Whether the system still does so, as far as is known.
    #[inline]
    pub(in super::super) fn still_keep_time() -> bool {
        TRUST.is_given()
    }

    /// Reads the counter; returns zero unless the counter is trusted.
    #[inline]
    pub(in super::super) fn peek() -> u64 {
        // SAFETY: trust was given, so the instruction exists.
        if TRUST.is_given() { unsafe { read() } } else { 0 }
    }

    /// Reads the counter after everything ahead of it in the program is done: a reading of any
    /// clock that the caller took before is older than this one.
    ///
    /// # Safety
    /// `keep_time` has returned `true` at some time.
    #[inline]
    pub(in super::super) unsafe fn read() -> u64 {
        let mut processor = 0;
        // SAFETY: the caller has called `keep_time`, which has checked that the instruction exists.
        // The system lets programs use it, because its own clock used it inside of them.
        unsafe { __rdtscp(&raw mut processor) }
    }

    /// Reads the counter without waiting for what is ahead of it in the program. So it may be
    /// behind a reading of any clock that the caller took before, by as long as the processor works
    /// ahead: tens of microseconds at most, as far as was seen.
    ///
    /// # Safety
    /// `keep_time` has returned `true` at some time.
    #[inline]
    pub(in super::super) unsafe fn glance() -> u64 {
        // SAFETY: the caller has called `keep_time`, which has checked that the instruction exists.
        unsafe { _rdtsc() }
    }

    // === impl Trust ===

    impl Trust {
        const fn new() -> Trust {
            Trust { state: AtomicU32::new(UNASKED), asked_cycles: AtomicU64::new(0) }
        }

        #[inline]
        fn is_given(&self) -> bool {
            // ORDER: Relaxed - nothing is published by it; a thread that reads an old value is
            // wrong for as long as if the system had been asked a little later.
            self.state.load(Ordering::Relaxed) == GIVEN
        }

        /// Asks the system if nobody has yet.
        fn is_given_at_first(&self, ask: impl FnOnce() -> Option<bool>) -> bool {
            // ORDER: Relaxed - nothing is published by it.
            let is_unasked = self.state.load(Ordering::Relaxed) == UNASKED;
            if let Some(is_it) = is_unasked.then(ask).flatten() {
                let answer = if is_it { GIVEN } else { WITHDRAWN };
                // ORDER: Relaxed - nothing is published by it.
                let (old, order) = (UNASKED, Ordering::Relaxed);
                _ = self.state.compare_exchange(old, answer, order, order);
            }
            self.is_given()
        }

        /// Asks the system if nobody has for a while; one of several threads does.
        fn look_again(&self, now_cycles: u64, ask: impl FnOnce() -> Option<bool>) {
            // ORDER: Relaxed - it only decides who asks.
            let asked = self.asked_cycles.load(Ordering::Relaxed);
            if now_cycles.wrapping_sub(asked) >= ASK_CYCLES {
                self.ask_again(asked, now_cycles, ask);
            }
        }

        #[cold]
        fn ask_again(&self, asked: u64, now_cycles: u64, ask: impl FnOnce() -> Option<bool>) {
            // ORDER: Relaxed - it only decides who asks.
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            let asks = self.asked_cycles.compare_exchange(asked, now_cycles, order.0, order.1);
            if asks.is_ok() && ask() == Some(false) {
                // ORDER: Relaxed - nothing is published by it.
                self.state.store(WITHDRAWN, Ordering::Relaxed);
            }
        }
    }

    /// Whether the system's clock is the counter. `None`, as below: that cannot be read at the
    /// moment.
    fn is_clock_source() -> Option<bool> {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        says(path, |name| name.trim() == "tsc")
    }

    fn can_be_read() -> Option<bool> {
        says("/proc/cpuinfo", is_steady)
    }

    /// Whether the first processor has the instruction `rdtscp` (older ones have only `rdtsc`), and
    /// its counter neither changes its rate nor stands still while the processor idles.
    fn is_steady(info: &str) -> bool {
        let has = |flag| info.split_whitespace().any(|word| word == flag);
        has("rdtscp") && has("constant_tsc") && has("nonstop_tsc")
    }

    /// Whether the first few kilobytes of a file, which the system generates as it is read, say so.
    /// One that does not exist does not.
    fn says(path: &str, is_so: impl FnOnce(&str) -> bool) -> Option<bool> {
        let mut text = Vec::new();
        match File::open(path).and_then(|file| file.take(1 << 13).read_to_end(&mut text)) {
            Ok(_) => Some(is_so(&String::from_utf8_lossy(&text))),
            Err(error) if error.kind() == ErrorKind::NotFound => Some(false),
            Err(_) => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_counter_that_may_stand_still_or_change_its_rate_is_not_trusted() {
            assert!(is_steady("flags\t: tsc rdtscp constant_tsc nonstop_tsc"));
            assert!(!is_steady("flags\t: tsc rdtscp constant_tsc"));
            assert!(!is_steady("flags\t: tsc rdtscp nonstop_tsc"));
            assert!(!is_steady("flags\t: tsc constant_tsc nonstop_tsc"));
        }

        #[test]
        fn a_system_that_turns_away_from_the_counter_is_noticed_and_for_good() {
            let (trust, start) = (Trust::new(), 7 << 40);
            let is_given_after = |cycles, answer: fn() -> Option<bool>| {
                trust.look_again(start + cycles, answer);
                trust.is_given()
            };
            assert!(!trust.is_given());
            assert!(trust.is_given_at_first(|| Some(true)));
            assert!(trust.is_given_at_first(|| unreachable!("it was asked")));
            assert!(is_given_after(0, || Some(true)));
            assert!(is_given_after(ASK_CYCLES - 1, || unreachable!("too soon")));
            assert!(is_given_after(ASK_CYCLES, || Some(true)));
            assert!(!is_given_after(2 * ASK_CYCLES, || Some(false)));
            assert!(!trust.is_given_at_first(|| unreachable!("it is over")));
            // After the counter was set back, the system is asked again.
            let trust = Trust::new();
            assert!(trust.is_given_at_first(|| Some(true)));
            trust.look_again(start, || Some(true));
            trust.look_again(start - 1, || Some(false));
            assert!(!trust.is_given());
        }

        #[test]
        fn a_system_without_the_counter_is_asked_once() {
            let trust = Trust::new();
            assert!(!trust.is_given_at_first(|| Some(false)));
            assert!(!trust.is_given_at_first(|| unreachable!("it was asked")));
        }

        #[test]
        fn a_system_that_does_not_say_leaves_things_as_they_are_and_is_asked_again() {
            assert_eq!(says("/proc/self/status", |text| text.starts_with("Name:")), Some(true));
            assert_eq!(says("/proc/self/status", str::is_empty), Some(false));
            assert_eq!(says("/proc/none", |_| true), Some(false));
            // It can be opened, and not read.
            assert_eq!(says("/proc/self", |_| true), None);
            let trust = Trust::new();
            assert!(!trust.is_given_at_first(|| None));
            assert!(trust.is_given_at_first(|| Some(true)));
            trust.look_again(7 << 40, || None);
            assert!(trust.is_given());
            trust.look_again(8 << 40, || Some(false));
            assert!(!trust.is_given());
        }
    }
}

/// Other systems have no counter that we know of.
#[cfg(not(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(any(elsewhere, loom, shuttle, miri))
)))]
mod counter {
    /// Whether the system keeps time by the counter: never.
    pub(in super::super) fn keep_time() -> bool {
        false
    }

    /// There is nothing to ask.
    pub(in super::super) fn look_again() {}

    /// Always `false`.
    pub(in super::super) fn still_keep_time() -> bool {
        false
    }

    /// Always zero.
    #[inline]
    pub(in super::super) fn peek() -> u64 {
        0
    }

    /// Always zero.
    ///
    /// # Safety
    /// `keep_time` has returned `true` at some time.
    pub(in super::super) unsafe fn read() -> u64 {
        0
    }

    /// Always zero.
    ///
    /// # Safety
    /// `keep_time` has returned `true` at some time.
    pub(in super::super) unsafe fn glance() -> u64 {
        0
    }
}
