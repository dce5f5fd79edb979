//! The bench's own clock: nanoseconds since the process first asked.
//!
//! Deadlines and firings are stamped with it, whatever clock a contender uses itself.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// The instant that [`now_ns`] counts from.
pub(crate) fn start() -> Instant {
    *START.get_or_init(Instant::now)
}

/// Nanoseconds since [`start`].
#[inline]
pub(crate) fn now_ns() -> u64 {
    ns(start().elapsed())
}

/// A duration in nanoseconds, as far as they can be counted.
#[inline]
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What one reading costs here, in nanoseconds: the bench stamps every timer of some workloads.
pub(crate) fn cost_ns() -> f64 {
    const READS: u32 = 20_000;
    let begun = Instant::now();
    for _ in 0..READS {
        black_box(now_ns());
    }
    begun.elapsed().as_nanos() as f64 / f64::from(READS)
}
