//! What a node needs to stand in a lock-free list, and how to have it at hand in time.

use crate::sync::AtomicPtr;

/// A node of an intrusive list: it carries the pointer to the next one itself.
pub trait Linked: Sized {
    /// The link. Written by the thread that pushes the node, read by the one that took the list
    /// (and, for entries, by readers under a guard, who must expect it to change).
    fn next(&self) -> &AtomicPtr<Self>;
}

/// Asks for the cache line of a node that is about to be read and written.
#[inline]
pub fn prefetch<N>(node: *mut N) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint; it accepts any address and touches nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(node.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = node;
}
