//! `fire-all`: as many timers as fast as possible, and all of them fire.
//!
//! What a schedule costs here includes one clock read and two stores of the bench's own, which
//! say when the timer ought to fire; what a firing costs includes another.

use std::time::Duration;

use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::drive::{BURST, Lane};
use crate::error::BenchError;
use crate::lateness::Lateness;
use crate::machine::usage::Usage;
use crate::machine::{clock, memory};
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const TIMERS: u64 = 1_000_000;
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_millis(2_000);

/// What the hungriest contender takes for a timer, and some more.
const TOUCHED_BYTES: u64 = 512;

/// One thread's share.
struct Salvo<P: Producer> {
    producer: P,
    timers: Slots<P::Timer>,
    deadlines_ns: Vec<u64>,
    first_token: u64,
    next: usize,
    random: Random,
    most: Duration,
}

/// Measures a contender.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let per_thread = plan.count(TIMERS, 200).div_ceil(plan.threads as u64);
    let timers = per_thread * plan.threads as u64;
    let most = plan.time(MOST, Duration::from_millis(20));
    memory::touch(timers * TOUCHED_BYTES);
    sink::stamp(timers);
    // Starting, they read their clock first and then start threads.
    let origin_ns = clock::now_ns();
    let contender = C::start(setup(plan))?;
    let lanes = (0..plan.threads as u64)
        .map(|lane| Salvo::new(contender.producer(), lane, per_thread, most))
        .collect();
    let (lanes, section) = contender.drive(lanes);
    let missing = sink::wait_for_stamps(0..timers, plan.patience());
    let used = Usage::of_process() - section.usage_before;
    plan.expect("timers that did not fire", missing, 0)?;

    let mut lateness = Lateness::new(origin_ns, C::level_widths(setup(plan)));
    for lane in &lanes {
        for (token, &deadline_ns) in (lane.first_token..).zip(&lane.deadlines_ns) {
            lateness.record(deadline_ns, sink::stamped_ns(token));
        }
    }
    let mut outcome = Outcome::new(timers, section.wall, used.cpu_ns);
    outcome.add("scheduled", timers);
    outcome.add("fired", timers - missing);
    outcome.add("clock_ns", clock::cost_ns());
    outcome.add("tick_us", if C::HAS_TICK { plan.tick_us } else { 0 });
    outcome.add("switches", used.switches);
    lateness.report(outcome.extra());
    contender.report(outcome.extra());
    std::mem::forget((contender, lanes));
    Ok(outcome)
}

// === impl Salvo ===

impl<P: Producer> Salvo<P> {
    fn new(producer: P, lane: u64, timers: u64, most: Duration) -> Salvo<P> {
        Salvo {
            producer,
            timers: Slots::new(timers as usize),
            deadlines_ns: vec![1; timers as usize],
            first_token: lane * timers,
            next: 0,
            random: Random::new(lane + 1),
            most,
        }
    }

    #[inline]
    fn step(&mut self) {
        let (at, token) = (self.next, self.first_token + self.next as u64);
        let delay = self.random.between(LEAST, self.most);
        // Before the contender reads its own clock: a timer that is not early by this deadline
        // may be by its own, but not the other way round.
        self.deadlines_ns[at] = clock::now_ns() + clock::ns(delay);
        self.producer.schedule_for_good(self.timers.at(at), delay, token);
        self.next += 1;
    }
}

impl<P: Producer> Lane for Salvo<P> {
    fn prepare(&mut self) {}

    fn burst(&mut self) -> bool {
        let end = self.timers.len().min(self.next + BURST as usize);
        while self.next < end {
            self.step();
        }
        self.next < self.timers.len()
    }
}
