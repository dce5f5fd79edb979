//! `stuck`: a thousand timers per second, and once a second, on each thread, one whose task takes
//! half a second. How late are all others?
//!
//! The tasks that are stuck begin together. With as many threads as a contender has places where
//! timers fire, each of its places is stuck.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::drive::Lane;
use crate::error::BenchError;
use crate::lateness::Lateness;
use crate::machine::clock;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const ROUNDS: u64 = 100;
const ROUND: Duration = Duration::from_millis(100);

/// Over all threads.
const PER_ROUND: u64 = 100;

const ROUNDS_PER_STUCK: u64 = 10;
const STUCK: Duration = Duration::from_millis(500);

/// One thread's share of the timers.
struct Load<P: Producer> {
    producer: P,
    slots: Slots<P::Timer>,
    random: Random,
    tokens: Range<u64>,
    per_round: u64,
    round: Duration,
    begun: Instant,
    rounds: u64,
    deadlines_ns: Vec<u64>,
    calls: Duration,
}

/// Measures a contender. The tasks that are stuck sleep, so they take no CPU time.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let rounds = plan.count(ROUNDS, 2);
    let per_round = PER_ROUND.div_ceil(plan.threads as u64);
    let timers = rounds * per_round;
    sink::stamp(timers * plan.threads as u64);
    sink::be_stuck_for(plan.time(STUCK, Duration::from_millis(1)));
    let contender = C::start(setup(plan))?;
    let lane = |lane: u64| Load {
        producer: contender.producer(),
        slots: Slots::new((timers + rounds) as usize),
        random: Random::new(lane),
        tokens: lane * timers..(lane + 1) * timers,
        per_round,
        round: plan.time(ROUND, Duration::from_millis(1)),
        begun: Instant::now(),
        rounds: 0,
        deadlines_ns: Vec::with_capacity(timers as usize),
        calls: Duration::ZERO,
    };
    let (lanes, section) = contender.drive((0..plan.threads as u64).map(lane).collect());
    let all = 0..timers * plan.threads as u64;
    let missing = contender.inside(|| sink::wait_for_stamps(all.clone(), plan.patience()));
    plan.expect("timers missing", missing, 0)?;
    let mut lateness = Lateness::new(clock::now_ns());
    for (token, &deadline_ns) in all.zip(lanes.iter().flat_map(|lane| &lane.deadlines_ns)) {
        lateness.record(deadline_ns, sink::stamped_ns(token));
    }

    let calls = lanes.iter().map(|lane| lane.calls).sum();
    let mut outcome = Outcome::new(lateness.len() as u64, calls, section.used.cpu_ns);
    outcome.add("scheduled", lateness.len());
    outcome.add("fired", lateness.len());
    outcome.add("switches", section.used.switches);
    lateness.report(outcome.extra());
    contender.report(outcome.extra());
    std::mem::forget((contender, lanes));
    Ok(outcome)
}

// === impl Load ===

impl<P: Producer> Load<P> {
    fn schedule(&mut self, delay: Duration, token: u64) {
        let slot = self.slots.at((self.deadlines_ns.len() as u64 + self.rounds) as usize);
        let called = Instant::now();
        self.producer.schedule_for_good(slot, delay, token);
        self.calls += called.elapsed();
    }
}

impl<P: Producer> Lane for Load<P> {
    fn prepare(&mut self) {
        self.begun = Instant::now();
    }

    fn burst(&mut self) -> bool {
        if self.rounds % ROUNDS_PER_STUCK == 0 {
            self.schedule(self.round, sink::STUCK);
        }
        for _ in 0..self.per_round {
            let delay = self.random.between(self.round, 2 * self.round);
            let token = self.tokens.start + self.deadlines_ns.len() as u64;
            let deadline_ns = clock::now_ns() + clock::ns(delay);
            self.schedule(delay, token);
            self.deadlines_ns.push(deadline_ns);
        }
        self.rounds += 1;
        self.deadlines_ns.len() < self.tokens.clone().count()
    }

    fn pause(&self) -> Duration {
        (self.round * self.rounds as u32).saturating_sub(self.begun.elapsed())
    }
}
