//! Asking for a cache line before it is needed.
//!
//! Where what will be touched is known some time before, a memory latency per timer turns into a
//! stream of overlapping ones.
//!
//! *Tested by*: nothing observable; `benches/wheel.rs` shows the difference.

use crate::sync;

/// Starts loading the cache line that is `offset` bytes after the start of `items[index]`; an
/// index out of range asks for nothing useful.
#[inline]
pub(super) fn prefetch<T>(items: &[T], index: usize, offset: usize) {
    let at = items.as_ptr().wrapping_add(index).cast::<u8>().wrapping_add(offset);
    sync::prefetch(at);
}
