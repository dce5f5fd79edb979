//! A snapshot of an engine's pending timers.
//!
//! *Tested by*: `tests/races/engine/snapshot.rs`, `tests/oracles/tables.rs`.

use std::fmt;
use std::time::{Duration, Instant};

use crate::engine::core::Core;
use crate::entry::Reader;
use crate::time::{Geometry, Scale};

use super::stats::table;

/// The timers that were pending when [`Engine::snapshot`](crate::Engine::snapshot) was called.
///
/// `Display` prints tables of how many timers are on each level of the wheel, how many are due how
/// soon, and how many each shard has. Times are by the engine's clock when the snapshot was begun.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
///
/// let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build()?;
/// for ms in [0, 5, 5, 70_000] {
///     engine.schedule_detached(Duration::from_millis(ms), || ())?;
/// }
/// let table = [
///     "pending   4",
///     "",
///     "level  bucket   timers",
///     "    1  1ms           3",
///     "    4  32.768s       1",
///     "",
///     "due      timers",
///     "overdue       1",
///     "< 10ms        2",
///     "< 10min       1",
///     "",
/// ];
/// assert_eq!(engine.snapshot().to_string(), table.join("\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    timers: Vec<PendingTimer>,
    taken_at: Instant,
    scale: Scale,
    geometry: Geometry,
    shards: usize,
}

/// A timer that was pending.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock, PendingTimer};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// engine.schedule_detached(Duration::from_millis(40), || ())?;
/// let snapshot = engine.snapshot();
/// let timer: &PendingTimer = snapshot.iter().next().unwrap();
/// assert_eq!(timer.deadline, Some(engine.now() + Duration::from_millis(40)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PendingTimer {
    /// When it is due, rounded up to the tick. `None`: never.
    pub deadline: Option<Instant>,
    /// The level of the wheel on which it is filed, from 1.
    pub level: u8,
    /// The shard that serves it.
    pub shard: usize,
}

/// How many timers are on a level of the wheel: [`Snapshot::by_level`].
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, LevelCount, ManualClock};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// engine.schedule_detached(Duration::from_millis(40), || ())?;
/// for LevelCount { level, width, timers, .. } in engine.snapshot().by_level() {
///     println!("{timers} timers on level {level}, whose buckets are {width:?} wide");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelCount {
    /// The level, from 1.
    pub level: u8,
    /// The width of a bucket of that level.
    pub width: Duration,
    /// Timers on it, over all shards.
    pub timers: usize,
}

/// How many timers are due in a span of time: [`Snapshot::by_due_time`].
///
/// ```
/// use std::time::Duration;
/// use tickless::{DueCount, Engine, ManualClock};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// engine.schedule_detached(Duration::from_millis(40), || ())?;
/// for DueCount { due, timers, .. } in engine.snapshot().by_due_time() {
///     println!("{due:>8} {timers}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueCount {
    /// How soon the timers are due.
    pub due: DueTime,
    /// Timers that are due so soon and not sooner, over all shards.
    pub timers: usize,
}

/// How soon a timer is due, as of a snapshot.
///
/// ```
/// use std::time::Duration;
/// use tickless::DueTime;
///
/// assert_eq!(DueTime::Within(Duration::from_secs(60)).to_string(), "< 1min");
/// assert!(DueTime::Overdue < DueTime::Later);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DueTime {
    /// Its deadline has come, and it has not fired yet.
    Overdue,
    /// It is due in less than this.
    Within(Duration),
    /// It is due after the longest span of [`Within`](DueTime::Within).
    Later,
    /// It is never due.
    Never,
}

/// The spans that tell due times apart, in milliseconds.
const SPANS_MS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000];

/// The number of due times: the spans, and `Overdue`, `Later` and `Never`.
const DUE_TIMES: usize = SPANS_MS.len() + 3;

// === impl Snapshot ===

impl Snapshot {
    pub(super) fn of<T>(core: &Core<T>, reader: &Reader) -> Snapshot {
        let taken_at = core.instant_now();
        let mut timers = Vec::with_capacity(core.shared.all_counters.pending() as usize);
        // A chain that changes under the reader may lead it on for ever: it stops after this many
        // steps.
        let steps = 2 * core.shared.most_filed() + (1 << 16);
        for shard in &core.shards {
            shard.scan(reader, steps, shard.passes(), |found| {
                timers.push(PendingTimer {
                    deadline: core.instant_of(found.deadline),
                    level: found.level,
                    shard: found.shard as usize,
                });
            });
        }
        let geometry = *core.shards[0].wheel().geometry();
        Snapshot { timers, taken_at, scale: core.scale, geometry, shards: core.shards.len() }
    }

    /// Iterates over the timers, in no particular order.
    pub fn iter(&self) -> std::slice::Iter<'_, PendingTimer> {
        self.timers.iter()
    }

    /// Returns the number of timers.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether nothing was pending.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Returns the engine's time when the snapshot was begun.
    pub fn taken_at(&self) -> Instant {
        self.taken_at
    }

    /// Returns how many timers are on each level of the wheel that has any, from the lowest. O(n).
    pub fn by_level(&self) -> Vec<LevelCount> {
        let mut timers = vec![0; usize::from(self.geometry.levels())];
        self.iter().for_each(|timer| timers[usize::from(timer.level) - 1] += 1);
        let count = |(level, timers)| LevelCount { level, width: self.width(level), timers };
        (1..).zip(timers).filter(|&(_, timers)| timers > 0).map(count).collect()
    }

    /// Returns how many timers are due how soon, from the soonest. The result always has all twelve
    /// due times. O(n).
    pub fn by_due_time(&self) -> [DueCount; DUE_TIMES] {
        let mut counts = DueTime::all().map(|due| DueCount { due, timers: 0 });
        for timer in self {
            counts[self.due_index(timer)].timers += 1;
        }
        counts
    }

    /// Returns how many timers each shard has. O(n).
    pub fn by_shard(&self) -> Vec<usize> {
        let mut counts = vec![0; self.shards];
        self.iter().for_each(|timer| counts[timer.shard] += 1);
        counts
    }

    /// The due times that have timers, as text, with their number.
    fn due_counts(&self) -> impl Iterator<Item = (String, usize)> {
        let counts = self.by_due_time().into_iter().filter(|count| count.timers > 0);
        counts.map(|DueCount { due, timers }| (due.to_string(), timers))
    }

    fn due_index(&self, timer: &PendingTimer) -> usize {
        let Some(deadline) = timer.deadline else { return DUE_TIMES - 1 };
        let left = deadline.saturating_duration_since(self.taken_at);
        let is_over = |&span_ms: &u64| Duration::from_millis(span_ms) <= left;
        if left.is_zero() { 0 } else { 1 + SPANS_MS.partition_point(is_over) }
    }

    /// How wide the buckets of a level are.
    fn width(&self, level: u8) -> Duration {
        let ns = u128::from(self.geometry.width(level)) * u128::from(self.scale.tick_ns());
        let secs = u64::try_from(ns / 1_000_000_000);
        secs.map_or(Duration::MAX, |secs| Duration::new(secs, (ns % 1_000_000_000) as u32))
    }
}

impl<'a> IntoIterator for &'a Snapshot {
    type Item = &'a PendingTimer;
    type IntoIter = std::slice::Iter<'a, PendingTimer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Prints tables. Rows without timers are left out, and so is the table of shards if there is one
/// shard.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pending   {}", self.len())?;
        let levels = self.by_level().into_iter().map(|LevelCount { level, width, timers }| {
            [level.to_string(), readable(width), timers.to_string()]
        });
        let levels = table(["level", "bucket", "timers"], levels);
        let due_times = self.due_counts().map(|(due, timers)| [due, timers.to_string()]);
        let due_times = table(["due", "timers"], due_times);
        let shards = self.by_shard().into_iter().enumerate();
        let shards = shards.filter(|&(_, timers)| self.shards > 1 && timers > 0);
        let shards = shards.map(|(shard, timers)| [shard.to_string(), timers.to_string()]);
        let shards = table(["shard", "timers"], shards);
        write!(f, "{levels}{due_times}{shards}")
    }
}

// A summary, however many timers there are.
debug! { impl[] Snapshot[] {
    len = |this| this.len(),
    by_level = |this| {
        this.by_level().iter().map(|count| (count.level, count.timers)).collect::<Vec<_>>()
    },
    by_due_time = |this| this.due_counts().collect::<Vec<_>>(),
    by_shard = |this| this.by_shard(),
} }

/// Exact up to a minute, and rounded above.
fn readable(span: Duration) -> String {
    let (secs, unit) = match span.as_secs() {
        0..60 => return format!("{span:?}"),
        60..3_600 => (60.0, "min"),
        3_600..86_400 => (3_600.0, "h"),
        _ => (86_400.0, "d"),
    };
    let tenths = (span.as_secs_f64() / secs * 10.0).round();
    format!("{}{unit}", tenths / 10.0)
}

// === impl DueTime ===

impl DueTime {
    fn all() -> [DueTime; DUE_TIMES] {
        std::array::from_fn(|i| match i.checked_sub(1) {
            None => DueTime::Overdue,
            Some(i) if i < SPANS_MS.len() => DueTime::Within(Duration::from_millis(SPANS_MS[i])),
            Some(i) if i == SPANS_MS.len() => DueTime::Later,
            Some(_) => DueTime::Never,
        })
    }
}

impl fmt::Display for DueTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DueTime::Overdue => f.pad("overdue"),
            DueTime::Within(span) => f.pad(&format!("< {}", readable(*span))),
            DueTime::Later => f.pad("later"),
            DueTime::Never => f.pad("never"),
        }
    }
}
