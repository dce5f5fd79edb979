//! The processor's cycle counter, for systems that keep their own time by it.
//!
//! *Tested by*: the unit tests below, and those of `time/thread_clock.rs`, which uses it.

pub(super) use counter::{glance, keep_time, peek, read, still_keep_time};

/// Linux on x86-64: the time stamp counter.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(elsewhere, loom, shuttle, miri))))]
mod counter {
    use std::arch::x86_64::{__rdtscp, _rdtsc};
    use std::fs::File;
    use std::io::{self, Read};

    use crate::sync::{AtomicU32, AtomicU64, Ordering};

    static TRUST: Trust = Trust::new();

    /// Cycles (two to four seconds) after which the system is asked again.
    const ASK_CYCLES: u64 = 1 << 33;

    const UNASKED: u32 = 0;
    const GIVEN: u32 = 1;
    const WITHDRAWN: u32 = 2;

    /// Whether the counter is trusted. Trust that was withdrawn is never given again.
    struct Trust {
        state: AtomicU32,
        asked_cycles: AtomicU64,
    }

    /// Whether the system itself keeps time by this counter: the counter then runs at one rate, on
    /// all processors alike, or the system's own clock would not. Asks the system now and then.
    pub(in super::super) fn keep_time() -> bool {
        // SAFETY: this is called only after trust was given, so the instruction exists.
        let count = || unsafe { read() };
        TRUST.is_given_at_first(|| can_be_read() && is_clock_source())
            && TRUST.is_still_given(count(), is_clock_source)
    }

    /// Whether the system still does so, as far as is known when the counter shows `now_cycles`.
    #[inline]
    pub(in super::super) fn still_keep_time(now_cycles: u64) -> bool {
        TRUST.is_still_given(now_cycles, is_clock_source)
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
        // SAFETY: as in `read`.
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
        fn is_given_at_first(&self, ask: impl FnOnce() -> bool) -> bool {
            // ORDER: Relaxed - as in `is_given`.
            if self.state.load(Ordering::Relaxed) == UNASKED {
                let answer = if ask() { GIVEN } else { WITHDRAWN };
                // ORDER: Relaxed - as in `is_given`.
                let (old, order) = (UNASKED, Ordering::Relaxed);
                _ = self.state.compare_exchange(old, answer, order, order);
            }
            self.is_given()
        }

        /// Asks the system if nobody has for a while; one of several threads does.
        #[inline]
        fn is_still_given(&self, now_cycles: u64, ask: impl FnOnce() -> bool) -> bool {
            // ORDER: Relaxed - it only decides who asks.
            let asked = self.asked_cycles.load(Ordering::Relaxed);
            if now_cycles.wrapping_sub(asked) >= ASK_CYCLES && self.is_given() {
                self.ask_again(asked, now_cycles, ask);
            }
            self.is_given()
        }

        #[cold]
        fn ask_again(&self, asked: u64, now_cycles: u64, ask: impl FnOnce() -> bool) {
            // ORDER: Relaxed - it only decides who asks.
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            let asks = self.asked_cycles.compare_exchange(asked, now_cycles, order.0, order.1);
            if asks.is_ok() && !ask() {
                // ORDER: Relaxed - as in `is_given`.
                self.state.store(WITHDRAWN, Ordering::Relaxed);
            }
        }
    }

    /// Whether the system's clock is the counter. Does not allocate: any thread may be the one that
    /// asks, wherever it reads the time.
    fn is_clock_source() -> bool {
        let mut name = [0; 16];
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let length = File::open(path).and_then(|mut file| file.read(&mut name));
        length.is_ok_and(|length| name[..length].trim_ascii() == b"tsc")
    }

    fn can_be_read() -> bool {
        begins("/proc/cpuinfo").is_ok_and(|info| is_steady(&info))
    }

    /// Whether the first processor has the instruction `rdtscp` (older ones have only `rdtsc`), and
    /// its counter neither changes its rate nor stands still while the processor idles.
    fn is_steady(info: &str) -> bool {
        let has = |flag| info.split_whitespace().any(|word| word == flag);
        has("rdtscp") && has("constant_tsc") && has("nonstop_tsc")
    }

    /// The first few kilobytes of a file that the system generates as it is read.
    fn begins(path: &str) -> io::Result<String> {
        let mut text = Vec::new();
        File::open(path)?.take(1 << 13).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
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
            assert!(!trust.is_given() && !trust.is_still_given(start, || unreachable!()));
            assert!(trust.is_given_at_first(|| true));
            assert!(trust.is_given_at_first(|| unreachable!("it was asked")));
            assert!(trust.is_still_given(start, || true));
            assert!(trust.is_still_given(start + ASK_CYCLES - 1, || unreachable!("too soon")));
            assert!(trust.is_still_given(start + ASK_CYCLES, || true));
            assert!(!trust.is_still_given(start + 2 * ASK_CYCLES, || false));
            assert!(!trust.is_still_given(start + 3 * ASK_CYCLES, || unreachable!("it is over")));
            assert!(!trust.is_given_at_first(|| unreachable!("it is over")));
            // After the counter was set back, the system is asked again.
            let trust = Trust::new();
            assert!(trust.is_given_at_first(|| true) && trust.is_still_given(start, || true));
            assert!(!trust.is_still_given(start - 1, || false));
        }

        #[test]
        fn a_system_without_the_counter_is_asked_once() {
            let trust = Trust::new();
            assert!(!trust.is_given_at_first(|| false));
            assert!(!trust.is_given_at_first(|| unreachable!("it was asked")));
            assert!(!trust.is_still_given(7 << 40, || unreachable!("it was asked")));
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

    /// Always `false`.
    pub(in super::super) fn still_keep_time(_now_cycles: u64) -> bool {
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
