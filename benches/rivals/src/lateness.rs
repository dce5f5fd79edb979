//! How late timers fired, and whether that depends on where in a level their deadline lay.

use std::time::Duration;

use serde_json::{Value, json};

use crate::machine::clock;
use crate::record::Extra;
use crate::sample::Sample;

/// At most so many parts is the width of a bucket divided into. Each is a multiple of the tick: in
/// parts of another width the ticks would show as a pattern that nobody's lateness has.
const MOST_BINS: u64 = 64;

/// The shares of timers whose lateness is reported, for the figure of the distribution.
const SHARES: [f64; 17] =
    [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];

/// Collects deadlines and what became of them.
#[derive(Debug)]
pub(crate) struct Lateness {
    origin_ns: u64,
    tick_ns: u64,
    widths_ns: Vec<u64>,
    /// Deadline, and lateness (negative: early).
    fired: Vec<(u64, i64)>,
}

// === impl Lateness ===

impl Lateness {
    /// For timers that began at `origin_ns`.
    pub(crate) fn new(origin_ns: u64) -> Lateness {
        Lateness { origin_ns, tick_ns: 1, widths_ns: Vec::new(), fired: Vec::new() }
    }

    /// They are those of a wheel that began to turn then, with such a tick and buckets of these
    /// widths.
    pub(crate) fn with_levels(self, tick: Duration, widths: Vec<Duration>) -> Lateness {
        let widths_ns = widths.into_iter().map(clock::ns).collect();
        Lateness { tick_ns: clock::ns(tick).max(1), widths_ns, ..self }
    }

    /// A timer fired.
    pub(crate) fn record(&mut self, deadline_ns: u64, fired_ns: u64) {
        self.fired.push((deadline_ns, fired_ns as i64 - deadline_ns as i64));
    }

    /// How many have fired.
    pub(crate) fn len(&self) -> usize {
        self.fired.len()
    }

    /// How many of them did so before their deadline.
    pub(crate) fn early(&self) -> usize {
        self.fired.iter().filter(|(_, late)| *late < 0).count()
    }

    /// Adds what there is to say.
    pub(crate) fn report(&self, extra: &mut Extra) {
        let late = Sample::new(self.fired.iter().map(|&(_, late)| late).collect());
        let levels: Vec<Value> = self.widths_ns.iter().map(|&width| self.level(width)).collect();
        let distribution: Vec<_> =
            SHARES.iter().map(|&share| json!([share, us(late.quantile(share))])).collect();
        extra.insert(
            "late_us".to_owned(),
            json!({
                "min": us(late.min()),
                "p50": us(late.quantile(0.5)),
                "p99": us(late.quantile(0.99)),
                "p999": us(late.quantile(0.999)),
                "max": us(late.max()),
            }),
        );
        extra.insert("early".to_owned(), self.early().into());
        extra.insert("late_distribution_us".to_owned(), distribution.into());
        extra.insert("levels".to_owned(), levels.into());
    }

    /// Lateness by where the deadline lay in its bucket.
    fn level(&self, width_ns: u64) -> Value {
        let ticks = width_ns.div_ceil(self.tick_ns);
        let bin_ns = self.tick_ns * ticks.div_ceil(MOST_BINS);
        let mut bins = vec![Vec::new(); width_ns.div_ceil(bin_ns) as usize];
        for &(deadline_ns, late) in &self.fired {
            let position = deadline_ns.saturating_sub(self.origin_ns) % width_ns;
            bins[(position / bin_ns) as usize].push(late);
        }
        let bins: Vec<_> = bins.into_iter().map(Sample::new).collect();
        let of = |share| bins.iter().map(|bin| us(bin.quantile(share))).collect::<Vec<_>>();
        json!({
            "width_ms": width_ns as f64 / 1e6,
            "p50_us": of(0.5),
            "p99_us": of(0.99),
            "counts": bins.iter().map(Sample::len).collect::<Vec<_>>(),
        })
    }
}

/// To a tenth of a microsecond.
fn us(ns: i64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lateness: &Lateness) -> Extra {
        let mut extra = Extra::new();
        lateness.report(&mut extra);
        extra
    }

    #[test]
    fn early_timers_are_counted_and_late_ones_put_in_order() {
        let mut lateness = Lateness::new(0);
        for (deadline, fired) in [(1_000, 900), (2_000, 5_000), (3_000, 4_000)] {
            lateness.record(deadline, fired);
        }
        let extra = report(&lateness);
        assert_eq!(extra["early"], 1);
        assert_eq!(extra["late_us"]["min"], -0.1);
        assert_eq!(extra["late_us"]["p50"], 1.0);
        assert_eq!(extra["late_us"]["max"], 3.0);
        assert_eq!(extra["late_distribution_us"].as_array().unwrap().len(), SHARES.len());
    }

    #[test]
    fn a_deadline_counts_where_it_lies_between_two_cascades() {
        let width = Duration::from_nanos(6_400);
        let mut lateness = Lateness::new(1_000).with_levels(Duration::from_nanos(100), vec![width]);
        // Right after a boundary, twice; and right before one.
        lateness.record(1_000, 8_000);
        lateness.record(7_450, 14_450);
        lateness.record(7_399, 7_499);
        let level = report(&lateness)["levels"][0].clone();
        assert_eq!(level["counts"][0], 2);
        assert_eq!(level["p50_us"][0], 7.0);
        assert_eq!(level["counts"][63], 1);
        assert_eq!(level["p99_us"][63], 0.1);
        assert_eq!(level["counts"][1], 0);
    }

    #[test]
    fn a_bin_is_a_multiple_of_the_tick() {
        let millis = Duration::from_millis;
        let widths = vec![millis(32), millis(64), millis(1_024)];
        let level = report(&Lateness::new(0).with_levels(millis(1), widths))["levels"].clone();
        let bins = |level: &Value| level["counts"].as_array().unwrap().len();
        assert_eq!(level.as_array().unwrap().iter().map(bins).collect::<Vec<_>>(), [32, 64, 64]);
    }
}
