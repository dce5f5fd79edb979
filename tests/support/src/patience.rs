//! How long a test waits.

use std::time::Duration;

/// How long a test waits for what has to come, until it says that it does not. It is long enough
/// for a machine that is ten times as slow as usual for a while, and shorter than the limit of a
/// test, so that the test itself says what is missing.
pub const PATIENCE: Duration = Duration::from_secs(60);
