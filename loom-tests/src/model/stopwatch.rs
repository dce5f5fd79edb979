//! How long a body took, whatever else the machine does meanwhile.

use std::fs;
use std::time::{Duration, Instant};

/// Begins with the first run of a body.
#[derive(Debug)]
pub(super) struct Stopwatch {
    wall: Instant,
    busy: Option<Duration>,
}

// === impl Stopwatch ===

impl Stopwatch {
    pub(super) fn start() -> Stopwatch {
        Stopwatch { wall: Instant::now(), busy: busy() }
    }

    /// The time that this thread was on a processor, which is the body's: the checkers run all of
    /// its threads on this one. Where the system does not tell, the time that passed.
    pub(super) fn elapsed(&self) -> Duration {
        let busy = busy().zip(self.busy).map(|(now, then)| now - then);
        busy.unwrap_or_else(|| self.wall.elapsed())
    }
}

/// As Linux counts it.
fn busy() -> Option<Duration> {
    let counts = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    counts.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
