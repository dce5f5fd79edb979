//! What serde writes of the types that describe an engine. The names and units are those of
//! `docs/json.md`, which users rely on.
//!
//! Durations are whole nanoseconds, in fields whose names end in `_ns`. Points in time are written
//! as distances. (Those of a reaper are in the core: `reaper/json.rs`.)
//!
//! *Owner*: none: these are values.
//!
//! *Tested by*: `tests/suite/observe/json.rs`.

use std::time::Instant;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::time::saturating_ns;

use super::{DueCount, DueTime, LevelCount, Overdue, PendingTimer, Snapshot, Stats};

/// The timers of a [`Snapshot`] as a list, for serde: [`Snapshot::listing`].
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, Listing, ManualClock};
///
/// let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build()?;
/// engine.schedule_detached(Duration::from_millis(5), || ())?;
/// let snapshot = engine.snapshot();
/// let listing: Listing<'_> = snapshot.listing();
/// let json = r#"[{"due_in_ns":5000000,"level":1,"shard":0}]"#;
/// assert_eq!(serde_json::to_string(&listing)?, json);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    snapshot: &'a Snapshot,
}

/// One timer of a listing: its deadline is written as the distance from this time.
struct Listed<'a>(&'a PendingTimer, Instant);

/// Writes a struct with these fields.
macro_rules! fields {
    ($serializer:ident, $name:literal, { $($field:literal: $value:expr),* $(,)? }) => {{
        let count = [$($field),*].len();
        let mut fields = $serializer.serialize_struct($name, count)?;
        $(fields.serialize_field($field, &$value)?;)*
        fields.end()
    }};
}

// === impl Snapshot ===

impl Snapshot {
    /// Returns the timers for serde: an array with an object for each, in no order. (The snapshot
    /// itself is written as a summary, however many timers there are.)
    pub fn listing(&self) -> Listing<'_> {
        Listing { snapshot: self }
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "Snapshot", {
            "pending": self.len(),
            "by_level": self.by_level(),
            "by_due_time": self.by_due_time(),
            "by_shard": self.by_shard(),
        })
    }
}

impl Serialize for LevelCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "LevelCount", {
            "level": self.level,
            "width_ns": saturating_ns(self.width),
            "timers": self.timers,
        })
    }
}

impl Serialize for DueCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (due, within) = match self.due {
            DueTime::Overdue => ("overdue", None),
            DueTime::Within(span) => ("within", Some(span)),
            DueTime::Later => ("later", None),
            DueTime::Never => ("never", None),
        };
        fields!(serializer, "DueCount", {
            "due": due,
            "within_ns": within.map(saturating_ns),
            "timers": self.timers,
        })
    }
}

// === impl Listing ===

impl Serialize for Listing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let taken_at = self.snapshot.taken_at();
        serializer.collect_seq(self.snapshot.iter().map(|timer| Listed(timer, taken_at)))
    }
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let &Listed(timer, from) = self;
        fields!(serializer, "PendingTimer", {
            "due_in_ns": timer.deadline.map(|deadline| distance_ns(from, deadline)),
            "level": timer.level,
            "shard": timer.shard,
        })
    }
}

/// From one time to another; negative if the other is earlier.
fn distance_ns(from: Instant, to: Instant) -> i64 {
    let ns = |later: Instant, earlier| {
        i64::try_from(later.saturating_duration_since(earlier).as_nanos()).unwrap_or(i64::MAX)
    };
    if to < from { -ns(from, to) } else { ns(to, from) }
}

// === impl Stats ===

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "Stats", {
            "scheduled": self.scheduled,
            "seated": self.seated,
            "cancelled": self.cancelled,
            "reset": self.reset,
            "fired": self.fired,
            "unended": self.unended,
            "returned": self.returned,
            "pending": self.pending,
            "cascaded": self.cascaded,
            "dead": self.dead,
            "panicked": self.panicked,
            "takeovers": self.takeovers,
            "stuck": self.stuck,
            "overdue_ns": saturating_ns(self.overdue),
            "wake_ups": self.wake_ups,
            "lateness": self.lateness,
        })
    }
}

// === impl Overdue ===

impl Serialize for Overdue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "Overdue", {
            "oldest_ns": saturating_ns(self.oldest),
            "shards": self.shards,
            "stuck": self.stuck,
        })
    }
}
