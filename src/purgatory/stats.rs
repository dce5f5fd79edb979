//! The statistics of a purgatory.

/// Statistics of a purgatory since it was created. They cover operations that waited; operations
/// that complete immediately, before they wait, are not included.
///
/// While other threads use the purgatory, the numbers of one reading may be inconsistent with one
/// another by a few operations.
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
    /// The number of operations that wait.
    pub delayed: usize,
    /// The same, with each operation counted once for each of its keys.
    pub watched: usize,
    /// The number of keys under which an operation waits.
    pub keys: usize,
    /// Operations that completed, by themselves or by force.
    pub completed: u64,
    /// Operations that timed out.
    pub expired: u64,
    /// Operations that were cancelled or returned by `stop`.
    pub cancelled: u64,
    /// Panics of callbacks, and of drops of keys and operations. (Drops with the task of a timer
    /// that fires are counted by the engine.)
    pub panicked: u64,
}

impl Stats {
    /// All zero.
    pub(super) const NONE: Stats = Stats {
        delayed: 0,
        watched: 0,
        keys: 0,
        completed: 0,
        expired: 0,
        cancelled: 0,
        panicked: 0,
    };

    /// The sums.
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
