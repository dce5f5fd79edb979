//! How much tests do.

/// What tests do of their full size unless they are told otherwise: as much as tells whether a tree
/// may land. The mutants, the servers and the long run have more.
const USUAL: f64 = 0.05;

/// `n`, times the environment's `TICKLESS_TEST_SCALE` (default 0.05), and at least 1.
pub fn scaled(n: u64) -> u64 {
    let factor = std::env::var("TICKLESS_TEST_SCALE")
        .map_or(USUAL, |factor| factor.parse::<f64>().expect("TICKLESS_TEST_SCALE is a number"));
    ((n as f64 * factor) as u64).max(1)
}
