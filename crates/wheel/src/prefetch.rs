//! Asking for a cache line before it is needed.
//!
//! If the address is known some time ahead, memory latencies overlap instead of adding up.
//!
//! *Tested by*: nothing observable; `benches/wheel/main.rs` shows the difference.

/// Starts loading the cache line that is `offset` bytes after the start of `items[index]`; an
/// index out of range asks for nothing useful.
#[inline]
pub(super) fn prefetch<T>(items: &[T], index: usize, offset: usize) {
    let at = items.as_ptr().wrapping_add(index).cast::<u8>().wrapping_add(offset);
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint. It reads nothing that the program can see and faults on
        // no address, so any pointer will do; every x86-64 has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
