//! How much tests do.

/// What tests do of their full size unless they are told otherwise: as much as tells whether a tree
/// may land. Those scripts in `ci/` that do another part say so: 0.1 (mutants, one busy processor),
/// 0.15 (servers, and what sanitizers in the long run take their part of), 0.3 (other targets), 20
/// (the optimized build).
const USUAL: f64 = 0.05;

/// `n`, times the environment's `TICKLESS_TEST_SCALE` (default 0.05), and at least 1.
pub fn scaled(n: u64) -> u64 {
    let factor = std::env::var("TICKLESS_TEST_SCALE")
        .map_or(USUAL, |factor| factor.parse::<f64>().expect("TICKLESS_TEST_SCALE is a number"));
    ((n as f64 * factor) as u64).max(1)
}

/// Where in `0..all` the `round`th of `rounds` is, of which each is somewhere else: in the midst if
/// there is one.
pub fn spread(round: u64, rounds: u64, all: u64) -> u64 {
    (2 * round + 1) * all / (2 * rounds)
}
