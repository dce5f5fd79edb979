//! Waiting for what comes for certain, however long others keep the threads from running.

use std::thread;
use std::time::Instant;

use crate::patience::PATIENCE;

/// Lets other threads run until `is_so`.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "in vain: {what}");
        thread::yield_now();
    }
}
