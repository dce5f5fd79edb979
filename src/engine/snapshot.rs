//! What was pending at some moment.

use std::time::Instant;

use crate::entry::Reader;

use super::core::Core;

/// What was pending while somebody looked: see [`TypedEngine::snapshot`](crate::TypedEngine).
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::builder().shards(2).build()?;
/// engine.schedule_detached(Duration::from_secs(60), || println!("due"))?;
/// let snapshot = engine.snapshot();
/// for timer in &snapshot {
///     println!("{:?} on shard {}", timer.deadline, timer.shard);
/// }
/// assert_eq!(snapshot.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    timers: Vec<PendingTimer>,
}

/// A timer that was pending.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::builder().shards(1).build()?;
/// let timeout = engine.schedule(Duration::from_secs(60), || println!("due"))?;
/// let snapshot = engine.snapshot();
/// let timer = snapshot.iter().next().expect("it is due in a minute");
/// assert_eq!((timer.deadline, timer.shard), (timeout.deadline(), 0));
/// assert!(timer.level > 1, "with some cascades to come");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let (soon, later) = (Duration::from_secs(60), Duration::from_secs(3600));
    /// engine.schedule_detached(later, || println!("later"))?;
    /// let first = engine.schedule(soon, || println!("soon"))?;
    /// let next = engine.snapshot().iter().filter_map(|timer| timer.deadline).min();
    /// assert_eq!(next, first.deadline());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> std::slice::Iter<'_, PendingTimer> {
        self.timers.iter()
    }

    /// How many there are.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// engine.schedule_detached(Duration::from_secs(60), || println!("due"))?;
    /// assert_eq!(engine.snapshot().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether nothing was pending.
    ///
    /// ```
    /// # use tickless::Engine;
    /// assert!(Engine::new()?.snapshot().is_empty());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
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
