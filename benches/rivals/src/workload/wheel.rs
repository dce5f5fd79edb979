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

/// How many timers are inserted, moved and taken out one by one, at least: of few timers, these are
/// several rounds.
const BY_KEY: u64 = 100_000;

/// Pairs have delays in between, so that none fires.
const PAIR_DELAYS: (u64, u64) = (10_000, 30_000);

/// What the hungriest wheel takes for a timer, and some more.
const TOUCHED_BYTES: u64 = 256;

/// What the runtime or engine around a wheel takes for itself, and a wheel of few timers.
const TOUCHED_FIRST: u64 = 16 << 20;

/// Measures a wheel.
pub(crate) fn run<W: Wheel>(plan: &Plan) -> Result<Outcome, BenchError> {
    let timers = plan.count(TIMERS, 200);
    memory::touch(TOUCHED_FIRST + timers * TOUCHED_BYTES);
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
    if W::CANCELS {
        let [insert, reset, remove] = by_key::<W>(plan, timers)?;
        outcome.add("again_ns", insert);
        outcome.add("reset_ns", reset);
        outcome.add("remove_ns", remove);
    }
    Ok(outcome)
}

/// Nanoseconds per insert into a wheel that had as many timers before, per reset and per cancel,
/// of timers in any order.
fn by_key<W: Wheel>(plan: &Plan, timers: u64) -> Result<[f64; 3], BenchError> {
    let rounds = BY_KEY.div_ceil(timers).min(100);
    let (mut wheel, mut random) = (W::start(), Random::new(3));
    let mut order: Vec<usize> = (0..timers as usize).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let mut keys: Vec<Option<W::Key>> = (0..timers).map(|_| None).collect();
    let mut took = [Duration::ZERO; 3];
    let mut cancelled = 0;
    // The first round is not measured: it is the one in which memory grows.
    for round in 0..=rounds {
        let begun = Instant::now();
        for (token, key) in (0..).zip(&mut keys) {
            *key = Some(wheel.insert(1 + random.below(TICKS), token));
        }
        let inserted = begun.elapsed();
        for &at in &order {
            let key = keys[at].take().expect("it was inserted");
            keys[at] = wheel.reset(key, 1 + random.below(TICKS), at as u64);
        }
        let reset = begun.elapsed();
        for &at in &order {
            cancelled += u64::from(keys[at].take().is_some_and(|key| wheel.cancel(key)));
        }
        let steps = [inserted, reset - inserted, begun.elapsed() - reset];
        if round > 0 {
            took.iter_mut().zip(steps).for_each(|(sum, step)| *sum += step);
        }
    }
    plan.expect("timers cancelled by key", cancelled, timers * (rounds + 1))?;
    Ok(took.map(|sum| sum.as_nanos() as f64 / (timers * rounds) as f64))
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
