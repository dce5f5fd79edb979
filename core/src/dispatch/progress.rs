//! How far a hand-over has come, for those who watch it.
//!
//! *Tested by*: `reaper/watch.rs`.

use super::in_hand::CLAIMED;

/// How far a hand-over had come when it was looked at: its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress(pub(super) u64);

// === impl Progress ===

impl Progress {
    /// Whether the hand-over has claimed at most one payload: that one has run since the beginning.
    pub fn is_at_first(self) -> bool {
        self.0 & CLAIMED <= 1
    }

    /// The same for each look at one payload: the first one has run since before it was claimed.
    pub fn payload(self) -> Progress {
        Progress(self.0 | u64::from(self.0 & CLAIMED == 0))
    }
}
