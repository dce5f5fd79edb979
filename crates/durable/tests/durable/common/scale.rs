//! How many random histories a test runs.

/// `usual`, times the factor in the environment, which is 0.05 by default.
pub(crate) fn cases(usual: f64) -> u32 {
    let scale = std::env::var("TICKLESS_TEST_SCALE").ok().and_then(|scale| scale.parse().ok());
    (usual * scale.unwrap_or(0.05_f64)) as u32
}
