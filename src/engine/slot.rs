//! Where an engine keeps its handler: to the end of the engine, and not longer.
//!
//! Threads that have used an engine keep a part of it until they next turn to another one. The
//! handler must not wait for that: a channel's receivers wait for the end, a pool's threads too.
//!
//! *Invariants*: turns look at the handler, each under the owner lock of a shard that is open. It
//! is taken when all shards are closed, which happens under the same locks: so the two exclude
//! each other, and the locks order them. That it is taken by one thread at a time is the caller's
//! business.
//!
//! *Tested by*: `tests/dispatch_ends.rs`.

use std::fmt;

use crate::dispatch::Handler;
use crate::sync::UnsafeCell;

/// A handler, until it is taken.
pub(super) struct Slot<T>(UnsafeCell<Option<Box<dyn Handler<T>>>>);

// SAFETY: what is in it may be shared and sent (`Handler` says so), and callers promise that nobody
// looks while somebody takes.
unsafe impl<T> Sync for Slot<T> {}

// === impl Slot ===

impl<T> Slot<T> {
    pub(super) fn new(handler: Box<dyn Handler<T>>) -> Slot<T> {
        Slot(UnsafeCell::new(Some(handler)))
    }

    /// The handler.
    ///
    /// # Panics
    /// It was taken.
    ///
    /// # Safety
    /// Nobody takes it as long as the reference is used: a shard of the engine is open.
    pub(super) unsafe fn get(&self) -> &dyn Handler<T> {
        // SAFETY: the caller says that nobody takes it, so that all there are is shared references.
        let handler = self.0.with_mut(|slot| unsafe { (*slot).as_deref() });
        handler.expect("it is taken after the last turn")
    }

    /// Takes the handler; `None`: it was taken before.
    ///
    /// # Safety
    /// Every shard of the engine was closed, and this thread knows by their locks, or by something
    /// that was ordered after them. No other thread takes it at the same time.
    pub(super) unsafe fn take(&self) -> Option<Box<dyn Handler<T>>> {
        // SAFETY: the caller says that nobody looks any more.
        self.0.with_mut(|slot| unsafe { (*slot).take() })
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}
