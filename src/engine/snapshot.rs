//! What was pending at some moment.

use std::time::Instant;

use crate::entry::Reader;

use super::core::Core;

/// What was pending while somebody looked: see [`TypedEngine::snapshot`](crate::TypedEngine).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    timers: Vec<PendingTimer>,
}

/// A timer that was pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PendingTimer {
    /// When it is due, rounded up to the tick; `None`: never.
    pub deadline: Option<Instant>,
    /// The level of the wheel on which it is filed, from 1.
    pub level: u8,
    /// The shard that serves it.
    pub shard: usize,
}

// === impl Snapshot ===

impl Snapshot {
    pub(super) fn of<T>(core: &Core<T>, reader: &Reader) -> Snapshot {
        // A chain that changes under the reader may lead it on; this is where it stops.
        let steps = 2 * core.pool.tallies.pending() + 2 * core.pool.tallies.dead() + (1 << 16);
        let mut timers = Vec::new();
        for shard in &core.shards {
            shard.census(reader, steps, |found| {
                let ns = core.scale.start_ns(found.deadline);
                timers.push(PendingTimer {
                    deadline: ns.and_then(|ns| core.clock.instant_at(ns)),
                    level: found.level,
                    shard: found.shard as usize,
                });
            });
        }
        Snapshot { timers }
    }

    /// The timers, in no particular order.
    pub fn iter(&self) -> std::slice::Iter<'_, PendingTimer> {
        self.timers.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether nothing was pending.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = &'a PendingTimer;
    type IntoIter = std::slice::Iter<'a, PendingTimer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
