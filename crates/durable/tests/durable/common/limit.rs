//! How long a test waits.

use std::time::Duration;

/// How long a test waits for something that comes, until it says that it hangs. It says nothing
/// of how long that should take: a machine can be ten times as slow as usual, for a minute.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);
