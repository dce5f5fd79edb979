//! What the integration tests share: how much they do.

/// `n`, times the environment's `TICKLESS_TEST_SCALE` (default 1).
pub(crate) fn scaled(n: u64) -> u64 {
    let factor = std::env::var("TICKLESS_TEST_SCALE")
        .map_or(1, |factor| factor.parse().expect("TICKLESS_TEST_SCALE is a whole number"));
    n * factor
}
