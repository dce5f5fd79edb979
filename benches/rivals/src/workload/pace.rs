//! Work at a steady rate, a round per millisecond.

use std::thread;
use std::time::{Duration, Instant};

/// The length of a round.
pub(crate) const ROUND: Duration = Duration::from_millis(1);

/// Keeps to a rate: a round that comes late is made up for at once.
#[derive(Debug)]
pub(crate) struct Pace {
    next: Instant,
}

// === impl Pace ===

impl Pace {
    /// The first round is now.
    pub(crate) fn new() -> Pace {
        Pace { next: Instant::now() }
    }

    /// Waits for the next round.
    pub(crate) fn wait(&mut self) {
        let early = self.next.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            thread::sleep(early);
        }
        self.next += ROUND;
    }
}

/// How many rounds fit into `time`.
pub(crate) fn rounds(time: Duration) -> u64 {
    (time.as_nanos() / ROUND.as_nanos()) as u64
}
