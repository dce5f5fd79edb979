//! The processor's cycle counter, for systems that keep their own time by it.
//!
//! *Tested by*: the tests of `time/watch.rs`, which is its user.

pub(super) use counter::{keep_time, peek, read};

/// Linux on x86-64: the time stamp counter.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(loom, shuttle, miri))))]
mod counter {
    use std::arch::x86_64::__rdtscp;
    use std::fs::File;
    use std::io::{self, Read};

    use crate::sync::OnceLock;

    /// What `keep_time` found.
    static KEEP_TIME: OnceLock<bool> = OnceLock::new();

    /// Whether the system itself keeps time by this counter: it then runs at one rate, on all
    /// processors alike, or the system's own clock would not. Asks the system, once.
    pub(in super::super) fn keep_time() -> bool {
        *KEEP_TIME.get_or_init(|| can_be_read() && is_clock_source())
    }

    /// Reads the counter; zero if nobody has asked, or it does not keep time.
    #[inline]
    pub(in super::super) fn peek() -> u64 {
        match KEEP_TIME.get() {
            // SAFETY: it keeps time.
            Some(true) => unsafe { read() },
            _ => 0,
        }
    }

    /// Reads the counter, and not before everything ahead of it in the program is done: a reading
    /// of any clock that the caller took before is older than this one.
    ///
    /// # Safety
    /// It keeps time.
    #[inline]
    pub(in super::super) unsafe fn read() -> u64 {
        let mut processor = 0;
        // SAFETY: the caller has asked `keep_time`, which has seen that the instruction exists;
        // and the system lets programs use it, because its own clock does, inside of them.
        unsafe { __rdtscp(&raw mut processor) }
    }

    fn is_clock_source() -> bool {
        begins("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|source| source.trim() == "tsc")
    }

    /// Whether the first processor knows the instruction: it is younger than the first of its
    /// kind.
    fn can_be_read() -> bool {
        begins("/proc/cpuinfo").is_ok_and(|info| info.split_whitespace().any(|s| s == "rdtscp"))
    }

    /// The first few kilobytes of a file that the system makes up as it is read.
    fn begins(path: &str) -> io::Result<String> {
        let mut text = Vec::new();
        File::open(path)?.take(1 << 13).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Elsewhere: none that we know of.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(any(loom, shuttle, miri)))))]
mod counter {
    /// Whether the system keeps time by the counter: never.
    pub(in super::super) fn keep_time() -> bool {
        false
    }

    /// Nothing to see.
    #[inline]
    pub(in super::super) fn peek() -> u64 {
        0
    }

    /// Nothing to read.
    ///
    /// # Safety
    /// It keeps time.
    pub(in super::super) unsafe fn read() -> u64 {
        0
    }
}
