//! How late timers are handed over: a histogram with one writer.

use std::array;
use std::time::Duration;

use crate::sync::{Counter, Ordering};

/// The resolution of the histogram is one part in 2^SUB_BITS.
pub const SUB_BITS: u32 = 4;
const SUBS: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUBS;

/// A histogram of latenesses.
pub struct Latenesses {
    counts: Box<[Counter; BUCKETS]>,
    max_ns: Counter,
}

/// How late timers were handed to the handler: the time of the hand-over minus the deadline, where
/// the deadline is rounded up to a tick.
///
/// Quantiles are upper bounds, at most 6.25 % too high; the maximum is exact.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
///
/// let clock = ManualClock::new();
/// let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
/// engine.schedule_detached(Duration::from_secs(1), || println!("due"))?;
/// // The reaper comes a quarter of a second late.
/// clock.advance(Duration::from_millis(1_250));
/// engine.turn(0)?;
/// let lateness = engine.stats().lateness;
/// assert_eq!((lateness.count, lateness.max), (1, Duration::from_millis(250)));
/// assert!(lateness.p50 <= lateness.p99 && lateness.p99 <= lateness.max);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lateness {
    /// Number of timers.
    pub count: u64,
    /// Half of the timers were at most this late.
    pub p50: Duration,
    /// 99 of 100 timers were at most this late.
    pub p99: Duration,
    /// 999 of 1000 timers were at most this late.
    pub p999: Duration,
    /// No timer was later than this.
    pub max: Duration,
}

/// The counts of a [`Latenesses`] that a reader has already been told.
#[derive(Clone, Debug)]
pub struct Seen {
    counts: Box<[u64]>,
}

// === impl Latenesses ===

impl Latenesses {
    /// An empty histogram.
    pub fn new() -> Latenesses {
        Latenesses {
            counts: Box::new(array::from_fn(|_| Counter::new(0))),
            max_ns: Counter::new(0),
        }
    }

    /// Counts `n` timers that are `ns` late. Only the shard's owner may call this.
    #[inline]
    pub fn record(&self, ns: u64, n: u64) {
        // ORDER: Relaxed - one writer (the owner's exclusion), and readers want numbers only.
        let count = &self.counts[bucket(ns)];
        count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Takes back that `n` timers were `ns` late. Only the shard's owner may call this.
    pub fn forget(&self, ns: u64, n: u64) {
        // ORDER: Relaxed - one writer, as it forgets what it recorded.
        let count = &self.counts[bucket(ns)];
        count.store(count.load(Ordering::Relaxed).saturating_sub(n), Ordering::Relaxed);
    }

    /// Calls `report` for each bucket that has grown since `seen`, with the upper bound of the
    /// bucket and the number of new timers, and updates `seen`.
    pub fn report_new(&self, seen: &mut Seen, mut report: impl FnMut(Duration, u64)) {
        for (bucket, (count, seen)) in self.counts.iter().zip(&mut seen.counts).enumerate() {
            // ORDER: Relaxed - readers want numbers only.
            let now = count.load(Ordering::Relaxed);
            if now > *seen {
                report(Duration::from_nanos(upper_ns(bucket)), now - *seen);
                *seen = now;
            }
        }
    }
}

impl Default for Latenesses {
    fn default() -> Latenesses {
        Latenesses::new()
    }
}

debug! { impl[] Latenesses[] { all = |this| Lateness::of([this]) } }

// === impl Seen ===

impl Seen {
    /// For a reader that has not been told any counts yet.
    pub fn nothing() -> Seen {
        Seen { counts: vec![0; BUCKETS].into() }
    }
}

/// The bucket of `ns`: exact below `SUBS`, then `SUBS` buckets for each doubling.
#[inline]
fn bucket(ns: u64) -> usize {
    let doublings = (u64::BITS - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    let sub = (ns >> doublings) as usize;
    doublings as usize * SUBS + sub
}

/// The largest value of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    let doublings = (bucket / SUBS).saturating_sub(1);
    let sub = (bucket - doublings * SUBS) as u64;
    (((u128::from(sub) + 1) << doublings) - 1) as u64
}

// === impl Lateness ===

impl Lateness {
    /// Sums up several histograms.
    #[doc(hidden)]
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Latenesses>) -> Lateness {
        let mut counts = vec![0_u64; BUCKETS];
        let mut max_ns = 0;
        for one in all {
            // ORDER: Relaxed - readers want numbers only.
            for (sum, count) in counts.iter_mut().zip(one.counts.iter()) {
                *sum += count.load(Ordering::Relaxed);
            }
            max_ns = max_ns.max(one.max_ns.load(Ordering::Relaxed));
        }
        let count: u64 = counts.iter().sum();
        let quantile = |per_mille: u64| {
            let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1000) as u64;
            let mut seen = 0;
            let at = counts.iter().position(|n| {
                seen += n;
                seen >= rank
            });
            Duration::from_nanos(at.map_or(0, upper_ns).min(max_ns))
        };
        Lateness {
            count,
            p50: quantile(500),
            p99: quantile(990),
            p999: quantile(999),
            max: Duration::from_nanos(max_ns),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_value_lies_in_its_bucket_and_close_to_its_upper_edge() {
        for shift in 0..64 {
            for near in [-1_i64, 0, 1, 3] {
                let ns = (1_u64 << shift).wrapping_add_signed(near);
                let upper = upper_ns(bucket(ns));
                assert!(bucket(ns) < BUCKETS);
                assert!(upper >= ns, "{ns} above {upper}");
                assert!(upper - ns <= ns / SUBS as u64, "{ns} far below {upper}");
            }
        }
        assert_eq!(upper_ns(bucket(u64::MAX)), u64::MAX);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1, "as many buckets as there are");
    }

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let one = Latenesses::new();
        let two = Latenesses::new();
        for ns in 1..=500_u64 {
            one.record(ns * 1000, 1);
            two.record((ns + 500) * 1000, 1);
        }
        let sum = Lateness::of([&one, &two]);
        assert_eq!(sum.count, 1000);
        assert_eq!(sum.max, Duration::from_micros(1000));
        let near = |got: Duration, us: f64| {
            let ratio = got.as_secs_f64() * 1e6 / us;
            assert!((1.0..1.07).contains(&ratio), "{got:?} for {us} us");
        };
        near(sum.p50, 500.0);
        near(sum.p99, 990.0);
        assert_eq!(Lateness::of([&Latenesses::new()]), Lateness::default());
    }

    #[test]
    fn what_was_seen_is_not_told_again() {
        let latenesses = Latenesses::new();
        let seen = &mut Seen::nothing();
        let mut reported = |latenesses: &Latenesses| {
            let mut all = Vec::new();
            latenesses.report_new(seen, |late, n| all.push((late.as_nanos(), n)));
            all
        };
        latenesses.record(0, 2);
        latenesses.record(5, 1);
        assert_eq!(reported(&latenesses), [(0, 2), (5, 1)]);
        assert!(reported(&latenesses).is_empty());
        latenesses.record(5, 3);
        latenesses.record(1000, 1);
        assert_eq!(reported(&latenesses), [(5, 3), (1023, 1)], "an upper bound, 6 % above at most");
    }
}
