//! `idle`: many timers, none of which is due within the hour, and nobody does anything.

use std::thread;
use std::time::{Duration, Instant};

use super::drained::flush;
use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::error::BenchError;
use crate::machine::usage::Usage;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const TIMERS: u64 = 1_000_000;
const HOUR: Duration = Duration::from_secs(3_600);
const WATCH: Duration = Duration::from_secs(5);

/// For what a contender still does after the last timer came.
const SETTLE: Duration = Duration::from_millis(500);

/// Measures a contender: first the process without it, then with it.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let watch = plan.time(WATCH, Duration::from_millis(20));
    let baseline = while_asleep(watch);

    let contender = C::start(setup(plan))?;
    let timers = plan.count(TIMERS, 100);
    let (begun, used_before) = (Instant::now(), Usage::of_process());
    let slots = contender.inside(|| {
        let (mut producer, mut random) = (contender.producer(), Random::new(1));
        let mut slots = Slots::<C::Timer>::new(timers as usize);
        for token in 0..timers {
            producer.schedule(slots.at(token as usize), random.between(HOUR, 2 * HOUR), token);
        }
        slots
    });
    flush(&contender, plan)?;
    let (fill, fill_used) = (begun.elapsed(), Usage::of_process() - used_before);
    thread::sleep(plan.time(SETTLE, Duration::from_millis(20)));
    let idle = while_asleep(watch);
    plan.expect("timers fired", sink::fired(), 0)?;

    let mut outcome = Outcome::new(timers, fill, fill_used.cpu_ns);
    outcome.add("scheduled", timers);
    outcome.add("fired", sink::fired());
    outcome.add("seconds", watch.as_secs_f64());
    outcome.add("cpu_ms", idle.cpu_ns as f64 / 1e6);
    outcome.add("switches", idle.switches);
    outcome.add("baseline_cpu_ms", baseline.cpu_ns as f64 / 1e6);
    outcome.add("baseline_switches", baseline.switches);
    contender.report(outcome.extra());
    std::mem::forget((contender, slots));
    Ok(outcome)
}

/// What the process uses while this thread sleeps.
fn while_asleep(watch: Duration) -> Usage {
    let before = Usage::of_process();
    thread::sleep(watch);
    Usage::of_process() - before
}
