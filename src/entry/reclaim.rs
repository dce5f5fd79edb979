//! When memory goes back to the allocator: after every reader that might see it has left.
//!
//! This is the only file that names the epoch crate. Entries are *reused* at once, because link
//! and state are atomic and readers touch nothing else; only giving memory back waits for the
//! epoch, and it does so by whole batches.
//!
//! *Orderings*: BUCKET-READ, through the epoch's own fences.

use std::fmt;

use crossbeam_epoch::{self as epoch, Atomic, Owned};

use crate::sync::Ordering;

/// While it lives, nothing that the holder may have seen is given back to the allocator.
pub struct Reader {
    guard: epoch::Guard,
}

/// Starts reading. Takes no lock and never waits.
pub fn read() -> Reader {
    Reader { guard: epoch::pin() }
}

/// Runs `free` once every [`Reader`] of now is gone: at once, or on some thread later.
///
/// # Safety
/// What `free` frees is out of reach for readers that start from now on, and `free` may run on
/// any thread at any later time, also after everything that it does not own is gone.
pub unsafe fn after_readers<F: FnOnce()>(free: F) {
    let guard = epoch::pin();
    // SAFETY: passed on to the caller.
    unsafe { guard.defer_unchecked(free) };
    guard.flush();
}

/// A value that is read without a lock and replaced as a whole.
pub struct Published<V> {
    value: Atomic<V>,
}

// === impl Reader ===

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

// === impl Published ===

impl<V: Send + Sync + 'static> Published<V> {
    /// Nothing published yet.
    #[cfg(not(crossbeam_loom))]
    pub const fn empty() -> Published<V> {
        Published { value: Atomic::null() }
    }

    /// Calls `f` with the value of now, if there is one.
    pub fn with<R>(&self, f: impl FnOnce(Option<&V>) -> R) -> R {
        let reader = read();
        // ORDER: Acquire - pairs with the exchange in `update`, which publishes the value.
        let shared = self.value.load(Ordering::Acquire, &reader.guard);
        // SAFETY: a value that was loaded under a guard lives as long as the guard: `update`
        // destroys it through the epoch only.
        f(unsafe { shared.as_ref() })
    }

    /// Replaces the value by `next(old)`, and again if somebody else was faster.
    pub fn update(&self, mut next: impl FnMut(Option<&V>) -> V) {
        let reader = read();
        loop {
            // ORDER: Acquire - pairs with the exchange below.
            let old = self.value.load(Ordering::Acquire, &reader.guard);
            // SAFETY: as in `with`.
            let new = Owned::new(next(unsafe { old.as_ref() }));
            // ORDER: AcqRel - publishes the new value to `with` and to other updates.
            let done = self.value.compare_exchange(
                old,
                new,
                Ordering::AcqRel,
                Ordering::Acquire,
                &reader.guard,
            );
            if done.is_ok() {
                if !old.is_null() {
                    // SAFETY: it was just taken out of reach, by this thread alone.
                    unsafe { reader.guard.defer_destroy(old) };
                }
                return;
            }
        }
    }
}

impl<V> fmt::Debug for Published<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").finish_non_exhaustive()
    }
}
