//! The workloads, each written once for all contenders.

mod cancel_heavy;
mod churn;
mod drained;
mod fire_all;
mod outcome;
mod reset;

use serde::{Deserialize, Serialize};

pub(crate) use outcome::Outcome;

use crate::contender::{Contender, Setup};
use crate::error::BenchError;
use crate::plan::Plan;
use crate::record::Record;

/// What to do with a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    CancelHeavy,
    FireAll,
    Reset,
    Scale,
    Wheel,
}

/// How many threads a workload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// As many as asked for.
    Any,
    /// Always so many.
    Fixed(usize),
}

// === impl Workload ===

impl Workload {
    /// All there are, in the order in which they are listed.
    pub(crate) const ALL: [Workload; 4] =
        [Workload::CancelHeavy, Workload::Reset, Workload::FireAll, Workload::Scale];

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::CancelHeavy => "cancel-heavy",
            Workload::FireAll => "fire-all",
            Workload::Reset => "reset",
            Workload::Scale => "scale",
            Workload::Wheel => "wheel",
        }
    }

    /// The one of that name.
    pub(crate) fn named(name: &str) -> Result<Workload, BenchError> {
        let known = Workload::ALL;
        known.into_iter().find(|workload| workload.name() == name).ok_or_else(|| {
            let known = known.iter().map(|workload| workload.name()).collect();
            BenchError::UnknownWorkload { name: name.to_owned(), known }
        })
    }

    /// What happens, in one line.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Workload::CancelHeavy => "cancel the oldest of 10,000 timers, schedule another",
            Workload::FireAll => "1,000,000 timers within 2 s, all of which fire",
            Workload::Reset => "move one of 100,000 timers, picked at random",
            Workload::Scale => "cancel-heavy with up to 10,000,000 timers pending",
            Workload::Wheel => "a wheel for one thread, without a clock",
        }
    }

    /// How many threads it has.
    pub(crate) fn threads(self) -> Threads {
        match self {
            Workload::CancelHeavy | Workload::FireAll | Workload::Reset => Threads::Any,
            Workload::Scale | Workload::Wheel => Threads::Fixed(1),
        }
    }

    /// What is varied within it at full scale, and in what unit.
    pub(crate) fn variants(self) -> &'static [u64] {
        match self {
            Workload::Scale => &[1_000, 100_000, 1_000_000, 10_000_000],
            _ => &[0],
        }
    }

    /// How a variant is shown.
    pub(crate) fn show_variant(self, variant: u64) -> String {
        match self {
            Workload::Scale => format!("{variant} pending"),
            _ => String::new(),
        }
    }

    /// The numbers that are shown beside the costs: a heading, and where in the record it is.
    pub(crate) fn headlines(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Workload::CancelHeavy => {
                &[("drained ns", "drained_ns_per_op"), ("growth MB", "rss_growth_mb")]
            }
            Workload::FireAll => &[
                ("p50 us", "late_us.p50"),
                ("p99 us", "late_us.p99"),
                ("p99.9 us", "late_us.p999"),
                ("max us", "late_us.max"),
                ("early", "early"),
            ],
            Workload::Scale => &[("bytes/timer", "bytes_per_timer"), ("fill ns", "fill_ns")],
            Workload::Reset | Workload::Wheel => &[],
        }
    }
}

/// Measures one contender.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Record, BenchError> {
    let outcome = match plan.workload {
        Workload::CancelHeavy => cancel_heavy::run::<C>(plan),
        Workload::FireAll => fire_all::run::<C>(plan),
        Workload::Reset => reset::run::<C>(plan),
        Workload::Scale => cancel_heavy::run_among_others::<C>(plan),
        Workload::Wheel => Err(plan.wrong("no wheel for one thread")),
    }?;
    Ok(outcome.into_record(plan))
}

/// How contenders are set up for a plan.
fn setup(plan: &Plan) -> Setup {
    Setup { tick: plan.tick() }
}
