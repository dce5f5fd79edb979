//! The counts of an engine, summed up, and the text tables that they are printed in.
//!
//! *Tested by*: `tests/stats.rs`, `tests/tables.rs`.

use std::fmt;

use crate::engine::core::Core;
use crate::memory::Count;
use crate::reaper::{Lateness, Observer};

/// What an engine has counted since it was built.
///
/// Each number is a sum over threads, which go on counting while it is read. So the numbers of one
/// reading need not add up to the last timer, unless the engine is at rest.
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
    /// How many of these took the seat of a cancelled timer.
    pub seated: u64,
    /// Timers cancelled before they fired.
    pub cancelled: u64,
    /// Resets that moved a timer.
    pub reset: u64,
    /// Timers handed over.
    pub fired: u64,
    /// Payloads returned because the engine stopped.
    pub returned: u64,
    /// Timers pending.
    pub pending: u64,
    /// Timers moved to a lower level of their wheel.
    pub cascaded: u64,
    /// Cancelled entries that no thread keeps as a seat and that are not swept yet.
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

/// Columns of text with headings. Columns of whole numbers are right-aligned.
pub(super) struct Table<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[String; N]>,
}

// === impl Stats ===

impl Stats {
    pub(super) fn of<T>(core: &Core<T>) -> Stats {
        let sums = core.shared.all_counters.sums();
        Stats {
            scheduled: sums.scheduled(),
            seated: sums.get(Count::Seated),
            cancelled: sums.get(Count::Cancelled),
            reset: sums.get(Count::Reset),
            fired: sums.get(Count::Fired),
            returned: sums.get(Count::Returned),
            pending: sums.pending(),
            cascaded: sums.get(Count::Cascaded),
            dead: sums.dead(),
            panicked: sums.get(Count::Panicked),
            slow: sums.get(Count::Slow),
            saturations: sums.get(Count::Saturated),
            saturated: core.observers.iter().filter(|observer| observer.is_saturated()).count(),
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
            ("- slow", self.slow),
            ("returned", self.returned),
            ("pending", self.pending),
            ("cascaded", self.cascaded),
            ("dead", self.dead),
        ];
        let timers = Table::new(["timers", "count"], timers.map(row));
        let reapers = [
            ("woke up", self.wake_ups),
            ("became saturated", self.saturations),
            ("- and are now", self.saturated as u64),
        ];
        let reapers = Table::new(["reapers", "count"], reapers.map(row));
        let Lateness { count, p50, p99, p999, max } = self.lateness;
        let bounds = [("of 50 %", p50), ("of 99 %", p99), ("of 99.9 %", p999), ("of all", max)];
        let bounds = bounds.map(|(name, late)| [name.to_owned(), format!("{late:?}")]);
        let lateness =
            Table::new(["lateness", "at most"], bounds.into_iter().filter(|_| count > 0));
        let text = format!("{timers}{reapers}{lateness}");
        f.write_str(text.trim_start())
    }
}

// === impl Table ===

impl<const N: usize> Table<N> {
    pub(super) fn new(
        head: [&'static str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Table<N> {
        Table { head, rows: rows.into_iter().collect() }
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.chain([self.head[column].len()]).max().unwrap_or(0)
    }

    /// Whether all cells of the column are whole numbers.
    fn is_of_numbers(&self, column: usize) -> bool {
        self.rows.iter().all(|row| row[column].bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// Prints an empty line and the table, or nothing if the table has no rows.
impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let widths: [usize; N] = std::array::from_fn(|column| self.width(column));
        let to_the_right: [bool; N] = std::array::from_fn(|column| self.is_of_numbers(column));
        let head = self.head.map(String::from);
        for row in [&head].into_iter().chain(&self.rows) {
            let cells: Vec<String> = (0..N)
                .map(|column| match (&row[column], widths[column]) {
                    (cell, width) if to_the_right[column] => format!("{cell:>width$}"),
                    (cell, width) => format!("{cell:<width$}"),
                })
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
