//! How much tests do.

/// `n`, times the environment's `TICKLESS_TEST_SCALE` (default 1), and at least 1.
pub fn scaled(n: u64) -> u64 {
    let factor = std::env::var("TICKLESS_TEST_SCALE")
        .map_or(1.0, |factor| factor.parse::<f64>().expect("TICKLESS_TEST_SCALE is a number"));
    ((n as f64 * factor) as u64).max(1)
}
