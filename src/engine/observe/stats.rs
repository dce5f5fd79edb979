//! The counts of an engine, summed up, and the text tables that they are printed in.
//!
//! *Tested by*: `tests/suite/observe/stats.rs`, `tests/oracles/tables.rs`.

use std::array;
use std::fmt;
use std::time::Duration;

use crate::engine::core::Core;
use crate::memory::Count;
use crate::reaper::{Lateness, Observer};

/// What an engine has counted since it was built.
///
/// Each number is a sum over threads, which go on counting while it is read. So the numbers of one
/// reading need not add up to the last timer, unless the engine is at rest. Then
/// `scheduled = cancelled + fired + returned + pending`.
///
/// What counts as one timer, of those that the engine's own modules arm:
///
/// - Each run of a [`Periodic`] and each attempt of a [`Retry`] is a timer that was scheduled and
///   has fired.
/// - A [`Heartbeat`] is one timer. That it looks for beats now and then, and is armed again, counts
///   neither as scheduled nor as fired. (From the time at which it is handed over to look until it
///   is armed again it counts as fired. So `scheduled` and `fired` may be smaller in a later
///   reading, by the heartbeats that were looking in the earlier one.
///   [`Turn::fired`](crate::Turn::fired) counts each hand-over.)
/// - A timer that is due before its caller has finished arming it is armed again, and counts once.
/// - A keyed timer that is moved to an earlier time is scheduled anew, and the old one is
///   cancelled.
///
/// [`Heartbeat`]: crate::periodic::Heartbeat
/// [`Periodic`]: crate::periodic::Periodic
/// [`Retry`]: crate::periodic::Retry
///
/// `Display` prints a table.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// engine.schedule(second, || println!("answered in time"))?.cancel();
/// engine.schedule_detached(second, || println!("due"))?;
/// engine.advance(second)?;
/// let stats = engine.stats();
/// assert_eq!((stats.scheduled, stats.cancelled, stats.fired), (2, 1, 1));
/// assert_eq!(stats.seated, 1, "the second has the place of the first");
/// println!("{stats}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers scheduled.
    pub scheduled: u64,
    /// How often a timer took the seat of a cancelled one: of those that were scheduled, and of
    /// heartbeats that were armed again.
    pub seated: u64,
    /// Timers cancelled before they fired.
    pub cancelled: u64,
    /// Resets that moved a timer.
    pub reset: u64,
    /// Timers handed over, but not those of heartbeats that were armed again.
    pub fired: u64,
    /// Timers that have fired and whose handle is still there, of tasks and of what the engine's
    /// own code waits for. Their memory serves no other timer.
    pub unended: u64,
    /// Payloads returned because the engine stopped.
    pub returned: u64,
    /// Timers pending: those that wait, and those that are due and were not handed over yet.
    pub pending: u64,
    /// Times that a timer was filed again, in another bucket.
    pub cascaded: u64,
    /// Cancelled entries that are still filed, and that neither a thread nor a depot keeps as the
    /// seat of a later timer. The memory of each is free when its bucket opens or is swept.
    pub dead: u64,
    /// Payloads that panicked.
    pub panicked: u64,
    /// Times that a shard was taken over from a task that kept it for too long:
    /// [`Builder::takeover`](crate::Builder::takeover).
    pub takeovers: u64,
    /// Tasks that are stuck: those of [`Engine::overdue`](crate::Engine::overdue).
    pub stuck: usize,
    /// The age of the oldest timer that is due and was not handed over: that of
    /// [`Engine::overdue`](crate::Engine::overdue).
    pub overdue: Duration,
    /// Times that a reaper's thread woke up.
    pub wake_ups: u64,
    /// How late timers were handed over, whether they count as fired or only looked.
    pub lateness: Lateness,
}

// === impl Stats ===

impl Stats {
    pub(super) fn of<T>(core: &Core<T>) -> Stats {
        let sums = core.shared.all_counters.sums();
        let mut stuck = 0;
        let (overdue, _) = core.backlog(|_, _, _| stuck += 1);
        Stats {
            scheduled: sums.scheduled(),
            seated: sums.get(Count::Seated),
            cancelled: sums.get(Count::Cancelled),
            reset: sums.get(Count::Reset),
            fired: sums.fired(),
            unended: sums.unended(),
            returned: sums.get(Count::Returned),
            pending: sums.pending(),
            cascaded: sums.get(Count::Cascaded),
            dead: sums.dead(),
            panicked: sums.get(Count::Panicked),
            takeovers: sums.get(Count::TakenOver),
            stuck,
            overdue,
            wake_ups: sums.get(Count::WokeUp),
            lateness: Lateness::of(core.observers.iter().map(Observer::lateness)),
        }
    }
}

/// Prints a row for each count, and then the lateness.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |(name, n): (&str, u64)| [name.to_owned(), n.to_string()];
        let timers = [
            ("scheduled", self.scheduled),
            ("- in a cancelled one's seat", self.seated),
            ("cancelled", self.cancelled),
            ("reset", self.reset),
            ("fired", self.fired),
            ("- panicked", self.panicked),
            ("- and still held", self.unended),
            ("returned", self.returned),
            ("pending", self.pending),
            ("cascaded", self.cascaded),
            ("dead", self.dead),
        ];
        let timers = table(["timers", "count"], timers.map(row));
        let reapers = [
            ("woke up", self.wake_ups),
            ("taken over", self.takeovers),
            ("stuck now", self.stuck as u64),
        ];
        let reapers = table(["reapers", "count"], reapers.map(row));
        let Lateness { count, p50, p99, p999, max, .. } = self.lateness;
        let bounds = [("of 50 %", p50), ("of 99 %", p99), ("of 99.9 %", p999), ("of all", max)];
        let bounds = bounds.map(|(name, late)| [name.to_owned(), format!("{late:?}")]);
        let bounds = bounds.into_iter().filter(|_| count > 0);
        let lateness = table(["lateness", "at most"], bounds);
        let text = format!("{timers}{reapers}{lateness}");
        f.write_str(text.trim_start())
    }
}

/// Returns an empty line and the rows as columns of text below their headings, or nothing if there
/// are no rows. Columns of whole numbers are right-aligned.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut rows: Vec<[String; N]> = rows.into_iter().collect();
    if rows.is_empty() {
        return String::new();
    }
    let is_number = |cell: &String| cell.bytes().all(|byte| byte.is_ascii_digit());
    let to_the_right: [bool; N] = array::from_fn(|at| rows.iter().all(|row| is_number(&row[at])));
    rows.insert(0, head.map(String::from));
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = array::from_fn(width);
    let lines = rows.iter().map(|row| {
        let cells: [String; N] = array::from_fn(|at| match (&row[at], widths[at]) {
            (cell, width) if to_the_right[at] => format!("{cell:>width$}"),
            (cell, width) => format!("{cell:<width$}"),
        });
        format!("\n{}", cells.join("  ").trim_end())
    });
    lines.chain(["\n".to_owned()]).collect()
}
