//! `single`: one timer at a time on an engine that has nothing else to do. How late is it?

use std::thread;
use std::time::{Duration, Instant};

use super::Outcome;
use crate::contender::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::lateness::Lateness;
use crate::machine::clock;
use crate::machine::usage::Usage;
use crate::plan::Plan;
use crate::random::Random;
use crate::registry::DEFAULT_TICK_US;
use crate::sink;
use crate::slots::Slots;

const TIMERS: u64 = 500;
const LEAST: Duration = Duration::from_millis(2);
const MOST: Duration = Duration::from_millis(10);

/// The tick of those that have one to set, unless another is asked for.
const TICK: Duration = Duration::from_micros(100);

/// The tick for few timers.
pub(super) fn tick(plan: &Plan) -> Duration {
    if plan.tick_us == DEFAULT_TICK_US { TICK } else { plan.tick() }
}

/// Measures a contender. A schedule includes what it costs to wake up the waiting thread; the CPU time
/// is that of all threads but the one that schedules.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let timers = plan.count(TIMERS, 10);
    sink::stamp(timers);
    let tick = tick(plan);
    let contender = C::start(Setup { tick })?;
    let mut lateness = Lateness::new(clock::now_ns());
    let mut slots = Slots::<C::Timer>::new(timers as usize);
    let (mut calls, mut random) = (Duration::ZERO, Random::new(1));
    let before = (Usage::of_process(), Usage::of_thread());
    contender.inside(|| {
        let mut producer = contender.producer();
        for token in 0..timers {
            let delay = random.between(LEAST, MOST);
            let begun = Instant::now();
            let deadline_ns = clock::now_ns() + clock::ns(delay);
            producer.schedule_for_good(slots.at(token as usize), delay, token);
            calls += begun.elapsed();
            // Asleep beyond the deadline: nobody runs who might be in the way.
            thread::sleep(delay + Duration::from_millis(1));
            plan.expect("timers missing", sink::wait_for_stamps(0..token + 1, plan.patience()), 0)?;
            lateness.record(deadline_ns, sink::stamped_ns(token));
        }
        Ok::<(), BenchError>(())
    })?;
    let used = Usage::of_process() - before.0;
    let by_this = Usage::of_thread() - before.1;

    let mut outcome = Outcome::new(timers, calls, used.cpu_ns.saturating_sub(by_this.cpu_ns));
    outcome.add("scheduled", timers);
    outcome.add("fired", timers);
    outcome.add("tick_us", if C::HAS_TICK { tick.as_micros() as u64 } else { 0 });
    lateness.report(outcome.extra());
    contender.report(outcome.extra());
    std::mem::forget((contender, slots));
    Ok(outcome)
}
