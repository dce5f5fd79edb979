//! `precise`: a thousand timers per second, as a load generator has them, and nothing else to do.
//!
//! They are scheduled a hundred at a time, so that the thread that schedules is asleep most of the
//! time and warms nothing up for those that fire. Their times are random, so now and then two lie
//! close together.

use std::thread;
use std::time::{Duration, Instant};

use super::Outcome;
use super::single::tick;
use crate::contender::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::lateness::Lateness;
use crate::machine::clock;
use crate::machine::usage::Usage;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const TIMERS: u64 = 10_000;

/// Between two rounds, in each of which so many timers are scheduled.
const ROUND: Duration = Duration::from_millis(100);
const PER_ROUND: u64 = 100;

/// Measures a contender. CPU time is that of all threads but the one that schedules.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let rounds = plan.count(TIMERS, 2 * PER_ROUND).div_ceil(PER_ROUND);
    let timers = rounds * PER_ROUND;
    sink::stamp(timers);
    let tick = tick(plan);
    let contender = C::start(Setup { tick })?;
    let mut deadlines_ns = Vec::with_capacity(timers as usize);
    let mut slots = Slots::<C::Timer>::new(timers as usize);
    let (mut calls, mut random) = (Duration::ZERO, Random::new(1));
    let begun = Instant::now();
    let before = (Usage::of_process(), Usage::of_thread());
    let missing = contender.inside(|| {
        let mut producer = contender.producer();
        for token in 0..timers {
            if token % PER_ROUND == 0 {
                let round = ROUND * (token / PER_ROUND) as u32;
                thread::sleep(round.saturating_sub(begun.elapsed()));
            }
            let delay = random.between(ROUND, 2 * ROUND);
            let called = Instant::now();
            deadlines_ns.push(clock::now_ns() + clock::ns(delay));
            producer.schedule_for_good(slots.at(token as usize), delay, token);
            calls += called.elapsed();
        }
        thread::sleep(2 * ROUND);
        sink::wait_for_stamps(0..timers, plan.patience())
    });
    let (used, elapsed) = (Usage::of_process() - before.0, begun.elapsed());
    let by_this = Usage::of_thread() - before.1;
    plan.expect("timers missing", missing, 0)?;
    let mut lateness = Lateness::new(clock::now_ns());
    for (token, deadline_ns) in (0..).zip(deadlines_ns) {
        lateness.record(deadline_ns, sink::stamped_ns(token));
    }

    let by_others_ns = used.cpu_ns.saturating_sub(by_this.cpu_ns);
    let mut outcome = Outcome::new(timers, calls, by_others_ns);
    outcome.add("scheduled", timers);
    outcome.add("fired", timers);
    outcome.add("cores", by_others_ns as f64 / elapsed.as_nanos() as f64);
    outcome.add("tick_us", if C::HAS_TICK { tick.as_micros() as u64 } else { 0 });
    lateness.report(outcome.extra());
    contender.report(outcome.extra());
    std::mem::forget((contender, slots));
    Ok(outcome)
}
