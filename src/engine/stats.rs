//! What an engine has counted.

use crate::reaper::{Lateness, Observer};
use crate::shard::Count;

use super::core::Core;

/// What an engine has counted since it was built.
///
/// Each number is a sum over threads, read while they go on counting: numbers of one reading
/// need not fit together to the last timer unless the engine is at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers scheduled.
    pub scheduled: u64,
    /// Of these, timers that took the seat of a cancelled one.
    pub seated: u64,
    /// Timers cancelled before they fired.
    pub cancelled: u64,
    /// Resets that moved a timer.
    pub reset: u64,
    /// Timers handed over.
    pub fired: u64,
    /// Payloads given back because the engine stopped.
    pub returned: u64,
    /// Timers pending.
    pub pending: u64,
    /// Timers moved to a lower level of their wheel.
    pub cascaded: u64,
    /// Cancelled entries that nobody keeps and that are not swept yet.
    pub dead: u64,
    /// Payloads that panicked.
    pub panicked: u64,
    /// Payloads that kept their reaper for longer than
    /// [`Builder::slow_threshold`](crate::Builder::slow_threshold) allows; also those that then
    /// panicked.
    pub slow: u64,
    /// Times that a shard became saturated:
    /// [`Builder::saturation`](crate::Builder::saturation).
    pub saturations: u64,
    /// Shards that are saturated now.
    pub saturated: usize,
    /// Times that a reaper's thread woke up.
    pub wake_ups: u64,
    /// How late timers were handed over.
    pub lateness: Lateness,
}

impl Stats {
    pub(super) fn of<T>(core: &Core<T>) -> Stats {
        let tallies = &core.pool.tallies;
        Stats {
            scheduled: tallies.scheduled(),
            seated: tallies.sum(Count::Seated),
            cancelled: tallies.sum(Count::Cancelled),
            reset: tallies.sum(Count::Reset),
            fired: tallies.sum(Count::Fired),
            returned: tallies.sum(Count::Returned),
            pending: tallies.pending(),
            cascaded: tallies.sum(Count::Cascaded),
            dead: tallies.dead(),
            panicked: tallies.sum(Count::Panicked),
            slow: tallies.sum(Count::Slow),
            saturations: tallies.sum(Count::Saturated),
            saturated: core.observers.iter().filter(|observer| observer.is_saturated()).count(),
            wake_ups: tallies.sum(Count::WokeUp),
            lateness: Lateness::of(core.observers.iter().map(Observer::lateness)),
        }
    }
}
