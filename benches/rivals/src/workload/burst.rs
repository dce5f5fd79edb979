//! `burst`: a million timers are due at one moment, and while they fire, another one each 100 us.
//! How late are those?
//!
//! The others, the *probes*, are scheduled as time goes on, each a millisecond ahead.

use std::thread;
use std::time::Duration;

use super::Outcome;
use super::single::tick;
use crate::contender::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::lateness::Lateness;
use crate::machine::usage::Usage;
use crate::machine::{clock, memory};
use crate::plan::Plan;
use crate::sink;
use crate::slots::Slots;

const TIMERS: u64 = 1_000_000;
const BETWEEN_PROBES: Duration = Duration::from_micros(100);

/// How far ahead a probe is scheduled.
const AHEAD: Duration = Duration::from_millis(1);

/// From the first schedule until the million is due: the slowest contender has scheduled it by
/// then.
const LEAD: Duration = Duration::from_secs(4);

/// The most probes: 10 seconds' worth.
const MAX_PROBES: u64 = 100_000;

/// What a timer takes, more or less.
const TOUCHED_BYTES: u64 = 512;

/// Measures a contender. The costs are those of scheduling the million, and all CPU time.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let timers = plan.count(TIMERS, 1_000);
    memory::touch(timers * TOUCHED_BYTES);
    // What is stamped are the probes; the million is counted.
    sink::stamp(MAX_PROBES);
    let contender = C::start(Setup { tick: tick(plan) })?;
    let mut slots = Slots::<C::Timer>::new((timers + MAX_PROBES) as usize);
    let mut deadlines_ns = Vec::with_capacity(MAX_PROBES as usize);
    let before = Usage::of_process();
    let begun_ns = clock::now_ns();
    let due_ns = begun_ns + clock::ns(plan.time(LEAD, Duration::from_millis(20)));
    let (filled_ns, done_ns) = contender.inside(|| {
        let mut producer = contender.producer();
        producer.keep_to_one_shard();
        for token in MAX_PROBES..MAX_PROBES + timers {
            let delay = Duration::from_nanos(due_ns.saturating_sub(clock::now_ns()));
            producer.schedule_for_good(slots.at(token as usize), delay, token);
        }
        let filled_ns = clock::now_ns();
        let (mut done_ns, limit_ns) = (None, due_ns + clock::ns(plan.patience()));
        // One probe at least: on a busy machine all may have fired before this thread runs again.
        while deadlines_ns.is_empty() || done_ns.is_none() {
            let probe = deadlines_ns.len() as u64;
            let deadline_ns = due_ns + probe * clock::ns(BETWEEN_PROBES);
            let at_ns = deadline_ns.saturating_sub(clock::ns(AHEAD));
            thread::sleep(Duration::from_nanos(at_ns.saturating_sub(clock::now_ns())));
            let now_ns = clock::now_ns();
            let has_fired = sink::fired() >= timers;
            done_ns = has_fired.then_some(now_ns);
            if probe == MAX_PROBES || now_ns > limit_ns {
                break;
            }
            if !has_fired || probe == 0 {
                // By the bench's clock it is due at the same time or a little later.
                let delay_ns = deadline_ns.saturating_sub(now_ns);
                deadlines_ns.push(now_ns + delay_ns);
                let delay = Duration::from_nanos(delay_ns);
                producer.schedule_for_good(slots.at(probe as usize), delay, probe);
            }
        }
        (filled_ns, done_ns)
    });
    let probes = deadlines_ns.len() as u64;
    let missing = contender.inside(|| sink::wait_for_stamps(0..probes, plan.patience()));
    let used = Usage::of_process() - before;
    plan.expect("probes missing", missing, 0)?;
    let fired = sink::fired_of(timers);
    plan.expect("timers fired", fired, timers)?;
    let mut lateness = Lateness::new(begun_ns);
    for (token, deadline_ns) in (0..).zip(deadlines_ns) {
        lateness.record(deadline_ns, sink::stamped_ns(token));
    }

    let mut outcome = Outcome::new(timers, Duration::from_nanos(filled_ns - begun_ns), used.cpu_ns);
    outcome.add("scheduled", timers + probes);
    outcome.add("fired", fired);
    outcome.add("probes", probes);
    outcome.add("filled_in_time", filled_ns < due_ns);
    let all_ns = done_ns.map(|done_ns| done_ns.saturating_sub(due_ns));
    outcome.add("all_fired_ms", all_ns.map(|ns| ns as f64 / 1e6));
    outcome.add("tick_us", if C::HAS_TICK { tick(plan).as_micros() as u64 } else { 0 });
    lateness.report(outcome.extra());
    contender.report(outcome.extra());
    std::mem::forget((contender, slots));
    Ok(outcome)
}
