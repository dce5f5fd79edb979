//! One measurement, as it is handed to the process that makes it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::kind::Workload;

/// What to measure. The workload knows its numbers; the scale shrinks them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) contender: String,
    pub(crate) workload: Workload,
    pub(crate) threads: usize,
    /// Counts and lengths of time are multiplied by this; rates stay.
    pub(crate) scale: f64,
    pub(crate) tick_us: u64,
    /// What is varied within the workload: timers pending (`scale`), jitter in microseconds
    /// (`wakeups`), operations per second (`purgatory-..`, `service`, `paced`), how timers are
    /// clustered (`clustered`); else 0.
    pub(crate) variant: u64,
    /// How many operations come (`purgatory-..`).
    pub(crate) operations: u64,
    /// Seconds after which the measurement is stopped.
    pub(crate) limit_s: u64,
}

// === impl Plan ===

impl Plan {
    /// `full` at this plan's scale, and not below `least`.
    pub(crate) fn count(&self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.scale) as u64).clamp(least.min(full), full)
    }

    /// As [`count`](Plan::count), for a length of time.
    pub(crate) fn time(&self, full: Duration, least: Duration) -> Duration {
        full.mul_f64(self.scale).clamp(least.min(full), full)
    }

    /// How long to wait for timers that do not come: less than until the process is killed.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.limit_s) * 3 / 4
    }

    /// The tick of contenders that have one to set.
    pub(crate) fn tick(&self) -> Duration {
        Duration::from_micros(self.tick_us)
    }

    /// For messages.
    pub(crate) fn label(&self) -> String {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        format!("{} of {}, {} {threads}", self.workload.name(), self.contender, self.threads)
    }

    /// That something did not come out as it must.
    pub(crate) fn wrong(&self, what: impl std::fmt::Display) -> BenchError {
        BenchError::Wrong { what: format!("{}: {what}", self.label()) }
    }

    /// That two counts are the same.
    pub(crate) fn expect(&self, what: &str, found: u64, expected: u64) -> Result<(), BenchError> {
        if found == expected {
            return Ok(());
        }
        Err(self.wrong(format_args!("{what}: {found}, not {expected}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(scale: f64) -> Plan {
        Plan {
            contender: "x".to_owned(),
            workload: Workload::Reset,
            threads: 2,
            scale,
            tick_us: 1_000,
            variant: 0,
            operations: 3,
            limit_s: 1,
        }
    }

    #[test]
    fn the_scale_shrinks_counts_and_times_down_to_a_least() {
        assert_eq!(plan(1.0).count(2_000_000, 100), 2_000_000);
        assert_eq!(plan(0.01).count(2_000_000, 100), 20_000);
        assert_eq!(plan(1e-9).count(2_000_000, 100), 100);
        assert_eq!(plan(1e-9).count(7, 100), 7);
        let second = Duration::from_secs(1);
        assert_eq!(plan(0.5).time(second, Duration::ZERO), second / 2);
        assert_eq!(plan(1e-9).time(second, second / 4), second / 4);
    }

    #[test]
    fn a_plan_survives_the_way_to_another_process() {
        let text = serde_json::to_string(&plan(0.001)).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan(0.001));
    }

    #[test]
    fn counts_that_differ_are_an_error_that_names_them() {
        assert!(plan(1.0).expect("fired", 3, 3).is_ok());
        let error = plan(1.0).expect("fired", 2, 3).unwrap_err().to_string();
        assert_eq!(error, "wrong: reset of x, 2 threads: fired: 2, not 3");
    }
}
