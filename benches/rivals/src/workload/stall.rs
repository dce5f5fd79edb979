//! `stall`: millions of timers that are due within one bucket of the third level. While they
//! come down and fire, how long does a call take?
//!
//! The system says of each call whether it made the thread wait meanwhile, for a page or for
//! another thread: the longest of the calls in which it did not is told, too.

use std::thread;
use std::time::{Duration, Instant};

use super::Outcome;
use crate::contender::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::machine::usage::Usage;
use crate::machine::{clock, memory};
use crate::plan::Plan;
use crate::random::Random;
use crate::sample::Sample;
use crate::sink;
use crate::slots::Slots;

const TIMERS: u64 = 4_000_000;
const BETWEEN_CALLS: Duration = Duration::from_micros(100);
const FAR_AWAY: Duration = Duration::from_secs(3_600);

/// Ticks of such a bucket in tickless's default geometry; the others get the same deadlines.
const BUCKET_TICKS: u32 = 1_024;

/// Buckets between now and the one in question: time to schedule all that.
const LEAD: u32 = 8;

/// The most calls: 30 seconds' worth.
const MAX_CALLS: usize = 300_000;

/// What a timer takes, more or less.
const TOUCHED_BYTES: u64 = 256;

/// Measures a contender. The costs are those of scheduling the many, and all CPU time.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let timers = plan.count(TIMERS, 1_000);
    let tick = plan.time(plan.tick(), Duration::from_micros(10));
    memory::touch(timers * TOUCHED_BYTES);
    // Starting, they read their clock first and then start threads.
    let origin_ns = clock::now_ns();
    let contender = C::start(Setup { tick })?;
    let bucket = tick * BUCKET_TICKS;
    let opens = Duration::from_nanos(origin_ns) + bucket * LEAD;
    let mut slots = Slots::<C::Timer>::new(timers as usize + MAX_CALLS);
    let (begun, before) = (now(), Usage::of_process());
    let (filled, calls, undisturbed_ns) = contender.inside(|| {
        let (mut producer, mut random) = (contender.producer(), Random::new(1));
        producer.keep_to_one_shard();
        for token in 0..timers {
            let deadline = random.between(opens, opens + bucket);
            let delay = deadline.saturating_sub(Duration::from_nanos(clock::now_ns()));
            producer.schedule_for_good(slots.at(token as usize), delay, token);
        }
        let filled = Duration::from_nanos(clock::now_ns());
        thread::sleep((opens - bucket / 4).saturating_sub(filled));
        let limit = opens + bucket + plan.patience();
        let (mut calls, mut undisturbed_ns) = (Vec::new(), 0);
        let goes_on = || sink::fired() < timers && now() < limit;
        // One call at least: on a busy machine all may have fired before this thread runs again.
        while calls.is_empty() || (calls.len() < MAX_CALLS && goes_on()) {
            let slot = slots.at(timers as usize + calls.len());
            let (before, begun) = (Usage::of_thread(), Instant::now());
            producer.schedule(slot, FAR_AWAY, timers + calls.len() as u64);
            let ns = clock::ns(begun.elapsed());
            calls.push(ns);
            if (Usage::of_thread() - before).pauses == 0 {
                undisturbed_ns = ns.max(undisturbed_ns);
            }
            thread::sleep(BETWEEN_CALLS);
        }
        (filled, calls, undisturbed_ns)
    });
    let used = Usage::of_process() - before;
    let done = now();
    sink::wait_for_fired(timers, plan.patience());
    let fired = sink::fired_of(timers);
    plan.expect("timers fired", fired, timers)?;

    let calls = Sample::new(calls);
    let mut outcome = Outcome::new(timers, filled - begun, used.cpu_ns);
    // Calls that began in the middle say nothing of the bucket.
    let is_filled_in_time = filled < opens;
    let us = |share| is_filled_in_time.then(|| calls.quantile(share) as f64 / 1e3);
    outcome.add("scheduled", timers + calls.len() as u64);
    outcome.add("fired", fired);
    outcome.add("calls", calls.len());
    outcome.add("call_p50_us", us(0.5));
    outcome.add("call_p99_us", us(0.99));
    outcome.add("call_p999_us", us(0.999));
    outcome.add("call_max_us", us(1.0));
    outcome.add("undisturbed_max_us", is_filled_in_time.then_some(undisturbed_ns as f64 / 1e3));
    outcome.add("filled_in_time", is_filled_in_time);
    outcome.add("last_late_ms", (done.as_secs_f64() - (opens + bucket).as_secs_f64()) * 1e3);
    contender.report(outcome.extra());
    std::mem::forget((contender, slots));
    Ok(outcome)
}

fn now() -> Duration {
    Duration::from_nanos(clock::now_ns())
}
