//! Live figures: the loops move them, anyone reads them.
//!
//! *Orderings*: Relaxed throughout, because each number stands for itself.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A bin of the latenesses is so wide ..
const BIN: Duration = Duration::from_micros(50);

/// .. and the last of so many has all that is later.
const BINS: usize = 2_000;

/// What the loops count while they run.
#[derive(Debug)]
pub(crate) struct Gauges {
    answered: AtomicU64,
    armed: AtomicU64,
    cancelled: AtomicU64,
    reset: AtomicU64,
    fired: AtomicU64,
    peak_pending: AtomicU64,
    late_max_ns: AtomicU64,
    late: [AtomicU64; BINS],
}

/// The gauges at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) answered: u64,
    pub(crate) cancelled: u64,
    pub(crate) reset: u64,
    pub(crate) fired: u64,
    pub(crate) pending: u64,
}

// === impl Gauges ===

impl Gauges {
    pub(crate) fn new() -> Gauges {
        Gauges {
            answered: AtomicU64::new(0),
            armed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            reset: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            peak_pending: AtomicU64::new(0),
            late_max_ns: AtomicU64::new(0),
            late: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Timers are about to be armed.
    pub(crate) fn armed(&self, count: u64) {
        let armed = self.armed.fetch_add(count, Ordering::Relaxed) + count;
        let pending = self.pending(armed);
        // The plain look first: the peak is seldom passed.
        if pending > self.peak_pending.load(Ordering::Relaxed) {
            self.peak_pending.fetch_max(pending, Ordering::Relaxed);
        }
    }

    pub(crate) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.reset.fetch_add(1, Ordering::Relaxed);
    }

    /// A timer fired, so long after its deadline.
    pub(crate) fn fired(&self, late: Duration) {
        self.fired.fetch_add(1, Ordering::Relaxed);
        let late_ns = late.as_nanos() as u64;
        let bin = (late_ns / BIN.as_nanos() as u64) as usize;
        self.late[bin.min(BINS - 1)].fetch_add(1, Ordering::Relaxed);
        if late_ns > self.late_max_ns.load(Ordering::Relaxed) {
            self.late_max_ns.fetch_max(late_ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Reading {
        Reading {
            answered: self.answered.load(Ordering::Relaxed),
            cancelled: self.cancelled.load(Ordering::Relaxed),
            reset: self.reset.load(Ordering::Relaxed),
            fired: self.fired.load(Ordering::Relaxed),
            pending: self.pending(self.armed.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn peak_pending(&self) -> u64 {
        self.peak_pending.load(Ordering::Relaxed)
    }

    /// The latest fire so far.
    pub(crate) fn late_max(&self) -> Duration {
        Duration::from_nanos(self.late_max_ns.load(Ordering::Relaxed))
    }

    /// So late or less were 99 % of the fires so far, rounded up to a bin; `None` before the first.
    pub(crate) fn late_p99(&self) -> Option<Duration> {
        let bins = self.late.each_ref().map(|bin| bin.load(Ordering::Relaxed));
        let rank = (bins.iter().sum::<u64>() * 99).div_ceil(100);
        let mut below = 0;
        let bin = bins.iter().position(|count| {
            below += count;
            below >= rank && rank > 0
        })?;
        // Nothing was later than the latest, and the last bin has no upper end.
        let end = BIN * (bin as u32 + 1);
        Some(if bin == BINS - 1 { self.late_max() } else { end.min(self.late_max()) })
    }

    fn pending(&self, armed: u64) -> u64 {
        let over = self.cancelled.load(Ordering::Relaxed) + self.fired.load(Ordering::Relaxed);
        armed.saturating_sub(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_was_armed_and_met_no_fate() {
        let gauges = Gauges::new();
        gauges.armed(5);
        gauges.cancelled();
        gauges.fired(Duration::ZERO);
        assert_eq!((gauges.read().pending, gauges.peak_pending()), (3, 5));
    }

    #[test]
    fn the_percentile_is_that_of_all_fires_so_far() {
        let gauges = Gauges::new();
        assert_eq!(gauges.late_p99(), None);
        (0..99).for_each(|_| gauges.fired(Duration::from_micros(120)));
        gauges.fired(Duration::from_secs(3));
        assert_eq!(gauges.late_p99(), Some(Duration::from_micros(150)));
        assert_eq!(gauges.late_max(), Duration::from_secs(3));
        gauges.fired(Duration::from_secs(2));
        assert_eq!(gauges.late_p99(), Some(Duration::from_secs(3)));
    }
}
