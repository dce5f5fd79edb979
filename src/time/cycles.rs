//! The processor's cycle counter, for systems that keep their own time by it.
//!
//! *Tested by*: the tests of `time/watch.rs`, which is its user.

/// Whether the system itself keeps time by this counter: it then runs at one rate, on all
/// processors alike, or the system's own clock would not.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri))))]
pub(super) fn keep_time() -> bool {
    use crate::sync::OnceLock;

    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    static KEEP_TIME: OnceLock<bool> = OnceLock::new();
    *KEEP_TIME.get_or_init(|| std::fs::read_to_string(SOURCE).is_ok_and(|s| s.trim() == "tsc"))
}

/// Whether the system itself keeps time by this counter: not here, as far as we know.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri)))))]
pub(super) fn keep_time() -> bool {
    false
}

/// Reads the counter, and not before everything ahead of it in the program is done: a reading of
/// any clock that the caller took before is older than this one.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri))))]
#[inline]
pub(super) fn read() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};

    // SAFETY: every x86-64 processor has both instructions, and Linux lets programs use them
    // where the counter is its clock source.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// Reads the counter; nothing asks where it does not keep time.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri)))))]
#[inline]
pub(super) fn read() -> u64 {
    0
}
