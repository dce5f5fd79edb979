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

/// Has the allocator map and touch `bytes`, and gives them back to it.
pub(crate) fn touch(bytes: u64) {
    const BLOCK: usize = 1 << 20;
    let blocks = bytes.min(MAX_TOUCHED).div_ceil(BLOCK as u64);
    let held: Vec<Vec<u8>> = (0..blocks).map(|_| vec![1_u8; BLOCK]).collect();
    black_box(&held);
}
