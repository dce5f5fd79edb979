//! The limit on the timers that are pending, and which of them it counts.
//!
//! *Owner*: any thread. The shards of an engine share one limit.
//!
//! *Invariant*: a timer that was admitted and counted is discharged once, by who ends it. Both look
//! at the same payload, or know of what kind it is, so they agree whether it counts.
//!
//! *Tested by*: `tests/suite/engine/limits.rs`, `tests/suite/future/limits.rs`; model `crowd`.

use crate::sync::{AtomicU64, CachePadded, Ordering};

/// How many timers may be pending.
pub(super) struct Limit<T> {
    most: u64,
    /// How many are, of those that count.
    pending: CachePadded<AtomicU64>,
    /// Whether a timer with this payload does not count.
    is_exempt: fn(&T) -> bool,
}

// === impl Limit ===

impl<T> Limit<T> {
    pub(super) fn new(most: u64) -> Limit<T> {
        Limit { most, pending: CachePadded::default(), is_exempt: |_| false }
    }

    /// From now on, does not count payloads for which `is_exempt` returns `true`. Before the first
    /// use.
    pub(super) fn exempt(&mut self, is_exempt: fn(&T) -> bool) {
        self.is_exempt = is_exempt;
    }

    pub(super) fn counts(&self, payload: &T) -> bool {
        !(self.is_exempt)(payload)
    }

    /// Makes room for a timer that counts, if there is any.
    #[inline]
    pub(super) fn admit(&self) -> bool {
        // ORDER: Relaxed - only a number; the update is atomic, so the limit is never exceeded, and
        // only pending timers cause a refusal.
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < self.most).then_some(n + 1)
            })
            .is_ok()
    }

    /// Releases the room of `n` timers that counted.
    #[inline]
    pub(super) fn discharge(&self, n: u64) {
        // ORDER: Relaxed - as in `admit`.
        let before = self.pending.fetch_sub(n, Ordering::Relaxed);
        debug_assert!(before >= n, "{n} of {before} were discharged");
    }
}
