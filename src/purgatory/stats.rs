//! What a purgatory has counted.

use super::watchers::Counts;

/// What a purgatory has counted since it was made: operations that waited. (What completes on the
/// spot, before it waits, is not among them.)
///
/// Numbers of one reading need not fit together to the last operation while others are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Operations that wait.
    pub delayed: usize,
    /// The same, each counted once for each of its keys.
    pub watched: usize,
    /// Keys under which somebody waits.
    pub keys: usize,
    /// Operations that completed, by themselves or by force.
    pub completed: u64,
    /// Operations that timed out.
    pub expired: u64,
    /// Operations that were cancelled or returned by `stop`.
    pub cancelled: u64,
    /// Callbacks that panicked, and drops of keys.
    pub panicked: u64,
}

impl Stats {
    pub(super) fn new(counts: Counts, panicked: u64) -> Stats {
        let Counts { keys, watched, delayed, completed, expired, cancelled } = counts;
        Stats { delayed, watched, keys, completed, expired, cancelled, panicked }
    }
}
