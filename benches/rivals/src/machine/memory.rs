//! Resident memory, and making the allocator touch its pages before they are needed.
//!
//! On a virtual machine a fresh page may cost more than a microsecond, as much as several timers.
//! Children run with `MIMALLOC_PURGE_DELAY=-1`, so that what [`touch`] frees stays mapped.

use std::fs;
use std::hint::black_box;

/// The most that is touched ahead.
const MAX_TOUCHED: u64 = 3 << 30;

/// Bytes of this process that are in memory.
pub(crate) fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    // SAFETY: asks for a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages * page as u64
}

/// The most bytes of this process that ever were in memory at a time.
pub(crate) fn peak_bytes() -> u64 {
    peak_in(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// The number of kilobytes on the line that the kernel calls `VmHWM`, in bytes.
fn peak_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes.and_then(|count| count.parse().ok()).map_or(0, |count: u64| count * 1024)
}

/// Has the allocator map and touch `bytes`, and gives them back to it.
pub(crate) fn touch(bytes: u64) {
    const BLOCK: usize = 1 << 20;
    let blocks = bytes.min(MAX_TOUCHED).div_ceil(BLOCK as u64);
    let held: Vec<Vec<u8>> = (0..blocks).map(|_| vec![1_u8; BLOCK]).collect();
    black_box(&held);
}

#[test]
fn the_peak_is_found_and_at_least_what_is_resident() {
    assert_eq!(peak_in("VmPeak:\t 9 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 7 kB\n"), 1234 * 1024);
    assert_eq!(peak_in(""), 0);
    let resident = resident_bytes();
    assert!(resident > 0 && peak_bytes() > 0);
}
