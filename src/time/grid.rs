//! The grid of a period: the times that lie whole periods apart.
//!
//! *Tested by*: `proofs/arithmetic`, `tests/oracles/periodic.rs`, `tests/suite/future/interval.rs`.

use std::time::Duration;

/// The first time of the grid after `last_ns` that is not before `earliest_ns`, and how many times
/// of the grid between the two are skipped. The period is not zero. `u64::MAX` is never.
pub fn next_on_grid(last_ns: u64, period_ns: u64, earliest_ns: u64) -> (u64, u64) {
    let next_ns = last_ns.saturating_add(period_ns);
    let missed = earliest_ns.saturating_sub(next_ns).div_ceil(period_ns);
    (next_ns.saturating_add(missed.saturating_mul(period_ns)), missed)
}

/// How far away the next time of the grid is, `late` after one of its times. If that is a time of
/// the grid itself, the next one is a whole period away. The period is not zero.
pub fn left_of_period(period: Duration, late: Duration) -> Duration {
    // Less than the period, which may be longer than a `u64` of nanoseconds.
    let over_ns = late.as_nanos() % period.as_nanos();
    let secs = (over_ns / 1_000_000_000) as u64;
    period - Duration::new(secs, (over_ns % 1_000_000_000) as u32)
}
