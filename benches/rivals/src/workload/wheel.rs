//! `wheel`: the structure alone, in simulated time. Inserting and expiring, tick by tick and from
//! one expiration to the next; pairs of an insert and a cancel.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::Outcome;
use crate::error::BenchError;
use crate::machine::memory;
use crate::machine::usage::Usage;
use crate::plan::Plan;
use crate::random::Random;
use crate::wheels::Wheel;

const TIMERS: u64 = 1_000_000;
const TICKS: u64 = 60_000;
const RING: u64 = 10_000;
const PAIRS: u64 = 2_000_000;

/// Pairs have delays in between, so that none fires.
const PAIR_DELAYS: (u64, u64) = (10_000, 30_000);

/// What the hungriest wheel takes for a timer, and some more.
const TOUCHED_BYTES: u64 = 256;

/// Measures a wheel.
pub(crate) fn run<W: Wheel>(plan: &Plan) -> Result<Outcome, BenchError> {
    let timers = plan.count(TIMERS, 200);
    memory::touch(timers * TOUCHED_BYTES);
    let used_before = Usage::of_process();
    let by_tick = live_and_die::<W>(plan, timers, |_, now| now + 1)?;
    let used = Usage::of_process() - used_before;
    let by_next = live_and_die::<W>(plan, timers, |wheel, now| {
        wheel.next_expiration().map_or(now + 1, |next| next.max(now + 1))
    })?;

    let mut outcome = Outcome::new(timers, by_tick.insert + by_tick.expire, used.cpu_ns);
    let per_timer = |time: Duration| time.as_nanos() as f64 / timers as f64;
    outcome.add("scheduled", timers);
    outcome.add("fired", by_tick.fired);
    outcome.add("insert_ns", per_timer(by_tick.insert));
    outcome.add("expire_by_tick_ns", per_timer(by_tick.expire));
    outcome.add("expire_by_next_ns", per_timer(by_next.expire));
    outcome.add("pair_ns", if W::CANCELS { pairs::<W>(plan)?.into() } else { Value::Null });
    Ok(outcome)
}

/// How long inserting and expiring took.
struct Lives {
    insert: Duration,
    expire: Duration,
    fired: u64,
}

/// Inserts `timers` timers and advances until all have fired; `step` says how far.
fn live_and_die<W: Wheel>(
    plan: &Plan,
    timers: u64,
    step: impl Fn(&mut W, u64) -> u64,
) -> Result<Lives, BenchError> {
    let (mut wheel, mut random) = (W::start(), Random::new(1));
    let begun = Instant::now();
    for token in 0..timers {
        wheel.insert_for_good(1 + random.below(TICKS), token);
    }
    let insert = begun.elapsed();
    let (mut now, mut fired, mut sum) = (0, 0, 0_u64);
    // Some round up; none needs more than a few ticks.
    while fired < timers && now < TICKS + 100 {
        now = step(&mut wheel, now);
        wheel.advance(now, |token| {
            fired += 1;
            sum += token;
        });
    }
    let expire = begun.elapsed() - insert;
    plan.expect("timers fired", fired, timers)?;
    plan.expect("sum of the timers fired", sum, timers * (timers - 1) / 2)?;
    Ok(Lives { insert, expire, fired })
}

/// Nanoseconds per pair of cancelling the oldest of a ring and inserting another.
fn pairs<W: Wheel>(plan: &Plan) -> Result<f64, BenchError> {
    let (ring, pairs) = (plan.count(RING, 16), plan.count(PAIRS, 100));
    let (mut wheel, mut random) = (W::start(), Random::new(2));
    let mut delay = || PAIR_DELAYS.0 + random.below(PAIR_DELAYS.1 - PAIR_DELAYS.0);
    let mut keys: Vec<_> = (0..ring).map(|token| Some(wheel.insert(delay(), token))).collect();
    let (mut oldest, mut cancelled) = (0, 0);
    let begun = Instant::now();
    for token in ring..ring + pairs {
        let key = keys[oldest].take().expect("the ring is full");
        cancelled += u64::from(wheel.cancel(key));
        keys[oldest] = Some(wheel.insert(delay(), token));
        oldest = if oldest + 1 == keys.len() { 0 } else { oldest + 1 };
    }
    let elapsed = begun.elapsed();
    plan.expect("timers cancelled", cancelled, pairs)?;
    // The rest as well: some handles must not just be dropped.
    let rest = keys.into_iter().flatten().map(|key| u64::from(wheel.cancel(key))).sum();
    plan.expect("timers cancelled in the end", rest, ring)?;
    Ok(elapsed.as_nanos() as f64 / pairs as f64)
}
