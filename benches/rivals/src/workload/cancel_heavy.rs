//! `cancel-heavy` (request timeouts that do not come to pass), alone and, as `scale`, among
//! many timers that are pending for an hour.

use std::time::{Duration, Instant};

use super::churn::Churn;
use super::drained::{Drained, drain, flush};
use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::error::BenchError;
use crate::machine::memory;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const RING: u64 = 10_000;
const STEPS: u64 = 2_000_000;
const STEPS_AMONG_OTHERS: u64 = 1_000_000;

const HOUR: Duration = Duration::from_secs(3_600);

/// Measures a contender alone.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let contender = C::start(setup(plan))?;
    let outcome = churn(&contender, plan, STEPS)?;
    // A process measures once, and ends without tearing down.
    std::mem::forget(contender);
    Ok(outcome)
}

/// Measures a contender with other timers pending: as many as the plan's variant says.
pub(crate) fn run_among_others<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let contender = C::start(setup(plan))?;
    let pending = plan.count(plan.variant, 100);
    // The first timer starts threads and the like, which do not count.
    flush(&contender, plan)?;
    let before = memory::resident_bytes();
    let begun = Instant::now();
    let others = contender.inside(|| {
        let (mut producer, mut random) = (contender.producer(), Random::new(99));
        let mut others = Slots::<C::Timer>::new(pending as usize);
        for token in 0..pending {
            producer.schedule(others.at(token as usize), random.between(HOUR, 2 * HOUR), token);
        }
        others
    });
    let fill = begun.elapsed();
    flush(&contender, plan)?;
    let grown = memory::resident_bytes().saturating_sub(before);
    let mut outcome = churn(&contender, plan, STEPS_AMONG_OTHERS)?;
    outcome.add("pending", pending);
    outcome.add("bytes_per_timer", grown as f64 / pending as f64);
    outcome.add("slot_bytes", size_of::<C::Timer>());
    outcome.add("fill_ns", fill.as_nanos() as f64 / pending as f64);
    std::mem::forget((contender, others));
    Ok(outcome)
}

fn churn<C: Contender>(contender: &C, plan: &Plan, full_steps: u64) -> Result<Outcome, BenchError> {
    let (ring, steps) = (plan.count(RING, 16), plan.count(full_steps, 100));
    let lanes = (0..plan.threads as u64)
        .map(|lane| Churn::new(contender.producer(), lane, ring as usize, steps))
        .collect();
    let (lanes, section) = contender.drive(lanes);
    let Drained { wall, cpu_ns, growth_bytes } = drain(contender, plan, &section)?;
    let cancelled = lanes.iter().map(Churn::cancelled).sum::<u64>();
    let ops = steps * plan.threads as u64;
    plan.expect("timers cancelled", cancelled, ops)?;
    plan.expect("timers fired", sink::fired(), 0)?;

    let mut outcome = Outcome::new(ops, section.wall, cpu_ns);
    outcome.add("scheduled", ops + ring * plan.threads as u64);
    outcome.add("cancelled", cancelled);
    outcome.add("fired", sink::fired());
    outcome.add("producers_cpu_ns_per_op", section.used.cpu_ns as f64 / ops as f64);
    outcome.add("drained_ns_per_op", wall.as_nanos() as f64 / ops as f64);
    outcome.add("rss_growth_mb", growth_bytes as f64 / 1e6);
    contender.report(outcome.extra());
    std::mem::forget(lanes);
    Ok(outcome)
}
