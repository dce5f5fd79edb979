//! Measuring in rounds of a fixed size.

use std::time::Duration;

/// Times `round`, which works on `size` items, as often as it takes for `wanted` items; answers
/// the time of just so many.
pub fn per_item(wanted: u64, size: u64, mut round: impl FnMut() -> Duration) -> Duration {
    let rounds = wanted.div_ceil(size);
    let total: Duration = (0..rounds).map(|_| round()).sum();
    total.mul_f64(wanted as f64 / (rounds * size) as f64)
}
