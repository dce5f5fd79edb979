//! The workloads, each written once for all contenders.

mod burst;
mod cancel_heavy;
mod churn;
mod drained;
mod fire_all;
mod handoff;
mod idle;
mod outcome;
mod pace;
mod paced;
mod precise;
mod purgatory;
mod reset;
mod service;
mod single;
mod stall;
mod steady;
mod stuck;
mod wakeups;
mod wheel;

pub(crate) use outcome::Outcome;

use crate::contender::{Contender, Setup};
use crate::error::BenchError;
use crate::kind::{Kind, Workload};
use crate::plan::Plan;
use crate::purgatories::Purgatory;
use crate::record::Record;
use crate::wheels::Wheel;

/// Measures one contender.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Record, BenchError> {
    let outcome = match plan.workload {
        Workload::CancelHeavy => cancel_heavy::run::<C>(plan),
        Workload::Handoff => handoff::run::<C>(plan),
        Workload::Reset => reset::run::<C>(plan, reset::HEARTBEATS),
        Workload::ResetEarlier => reset::run::<C>(plan, reset::BOTH_WAYS),
        Workload::Service => service::run::<C>(plan),
        Workload::Paced => paced::run::<C>(plan),
        Workload::FireAll => fire_all::run::<C>(plan, fire_all::SPREAD),
        Workload::Clustered => fire_all::run::<C>(plan, fire_all::clustered(plan.variant)),
        Workload::Scale => cancel_heavy::run_among_others::<C>(plan),
        Workload::Steady => steady::run::<C>(plan),
        Workload::Idle => idle::run::<C>(plan),
        Workload::Wakeups => wakeups::run::<C>(plan),
        Workload::Single => single::run::<C>(plan),
        Workload::Precise => precise::run::<C>(plan),
        Workload::Stall => stall::run::<C>(plan),
        Workload::Stuck => stuck::run::<C>(plan),
        Workload::Burst => burst::run::<C>(plan),
        Workload::Wheel | Workload::PurgatoryShort | Workload::PurgatoryLong => {
            Err(plan.wrong(Kind::Engine.limit()))
        }
    }?;
    Ok(outcome.into_record(plan))
}

/// Measures one wheel.
pub(crate) fn run_wheel<W: Wheel>(plan: &Plan) -> Result<Record, BenchError> {
    match plan.workload {
        Workload::Wheel => wheel::run::<W>(plan).map(|outcome| outcome.into_record(plan)),
        _ => Err(plan.wrong(Kind::Wheel.limit())),
    }
}

/// Measures one purgatory.
pub(crate) fn run_purgatory<P: Purgatory>(plan: &Plan) -> Result<Record, BenchError> {
    let waits = match plan.workload {
        Workload::PurgatoryShort => purgatory::SHORT,
        Workload::PurgatoryLong => purgatory::LONG,
        _ => return Err(plan.wrong(Kind::Purgatory.limit())),
    };
    purgatory::run::<P>(plan, waits).map(|outcome| outcome.into_record(plan))
}

/// How contenders are set up for a plan.
fn setup(plan: &Plan) -> Setup {
    Setup { tick: plan.tick() }
}
