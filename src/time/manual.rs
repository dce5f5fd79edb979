//! A clock that is moved by hand, for tests and simulations.

use std::fmt;
use std::time::Duration;

use crate::sync::{Arc, AtomicU64, CachePadded, Ordering};

use super::saturating_ns;

/// A clock that moves only when told to.
///
/// Clones move together. Give one to a builder and keep another to move time from a test:
///
/// ```
/// use std::time::Duration;
/// use tickless::ManualClock;
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.elapsed(), Duration::from_secs(5));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    elapsed_ns: Arc<CachePadded<AtomicU64>>,
}

// === impl ManualClock ===

impl ManualClock {
    /// A clock that stands at zero.
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// Moves the clock on; it stops at 2^64 - 1 ns (584 years).
    ///
    /// This moves only the time: an engine on this clock fires the timers that became due at its
    /// next turn. To move time *and* fire everything on the way in order, call the engine's
    /// `advance`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
    /// engine.schedule_detached(Duration::from_secs(1), || println!("due"))?;
    /// clock.advance(Duration::from_secs(9));
    /// assert_eq!(engine.len(), 1, "nothing has fired yet");
    /// assert_eq!(engine.turn(0)?.fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) {
        let by = saturating_ns(by);
        // ORDER: Relaxed - as in `elapsed_ns`; the update is atomic, so that concurrent calls add
        // up.
        let _ = self
            .elapsed_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(by)));
    }

    /// The time since the clock was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns())
    }

    #[inline]
    pub(crate) fn elapsed_ns(&self) -> u64 {
        // ORDER: Relaxed - a clock publishes nothing but itself; a caller that needs "after the
        // clock moved" also needs a handshake of its own.
        self.elapsed_ns.load(Ordering::Relaxed)
    }

    /// Moves the clock to `ns`, never back.
    #[cfg_attr(
        any(loom, shuttle),
        expect(dead_code, reason = "only engines move clocks to a time")
    )]
    pub(crate) fn move_to_ns(&self, ns: u64) {
        // ORDER: Relaxed - as in `elapsed_ns`; an atomic maximum keeps the clock monotonic when
        // several threads move it.
        self.elapsed_ns.fetch_max(ns, Ordering::Relaxed);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.elapsed()).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_move_together_and_never_back() {
        let a = ManualClock::new();
        let b = a.clone();
        a.advance(Duration::from_millis(3));
        assert_eq!(b.elapsed(), Duration::from_millis(3));
        b.move_to_ns(1);
        assert_eq!(a.elapsed(), Duration::from_millis(3));
        a.advance(Duration::MAX);
        assert_eq!(b.elapsed_ns(), u64::MAX);
    }
}
