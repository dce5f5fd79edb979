//! Waiting for what comes for certain.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::limit::LIMIT;

/// Waits for something that comes, unless it hangs.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "this never happens: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
