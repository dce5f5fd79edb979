//! How many random histories a test runs.

/// Which part of their full size tests do, by the environment: 0.05 by default.
pub(crate) fn scale() -> f64 {
    let scale = std::env::var("TICKLESS_TEST_SCALE").ok().and_then(|scale| scale.parse().ok());
    scale.unwrap_or(0.05)
}

/// `usual`, times the scale, and at least 1: of no cases at all, none fails.
pub(crate) fn cases(usual: f64) -> u32 {
    ((usual * scale()) as u32).max(1)
}
