//! Cache lines: a value on lines of its own, and asking for a line before it is needed.

pub use crossbeam_utils::CachePadded;

/// Starts to load the first cache line at `at`. Any address will do: a prefetch is a hint and
/// touches nothing.
#[inline]
pub fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address;
        // every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
