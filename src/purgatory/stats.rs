//! What a purgatory has counted.

/// What a purgatory has counted since it was made: operations that waited. (What completes on the
/// spot, before it waits, is not among them.)
///
/// Numbers of one reading need not fit together to the last operation while others are at work.
///
/// ```
/// use std::time::Duration;
/// use tickless::purgatory::{Operation, Purgatory};
///
/// struct Fetch;
/// impl Operation for Fetch {
///     fn try_complete(&self) -> bool {
///         false
///     }
///     fn on_complete(&self) {}
/// }
///
/// let purgatory = Purgatory::new()?;
/// purgatory.try_complete_else_watch(Fetch.into(), [1, 2], Duration::from_secs(30))?;
/// purgatory.try_complete_else_watch(Fetch.into(), [2], Duration::from_secs(30))?;
/// let stats = purgatory.stats();
/// assert_eq!((stats.delayed, stats.watched, stats.keys), (2, 3, 2));
/// purgatory.stop();
/// assert_eq!(purgatory.stats().cancelled, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Callbacks that panicked, and drops of keys and of operations. (What is dropped with the task
    /// of a timer that fires counts on the engine.)
    pub panicked: u64,
}

impl Stats {
    /// Nothing.
    pub(super) const NONE: Stats = Stats {
        delayed: 0,
        watched: 0,
        keys: 0,
        completed: 0,
        expired: 0,
        cancelled: 0,
        panicked: 0,
    };

    /// Both together.
    pub(super) fn plus(self, other: Stats) -> Stats {
        Stats {
            delayed: self.delayed + other.delayed,
            watched: self.watched + other.watched,
            keys: self.keys + other.keys,
            completed: self.completed + other.completed,
            expired: self.expired + other.expired,
            cancelled: self.cancelled + other.cancelled,
            panicked: self.panicked + other.panicked,
        }
    }
}
