//! `reset`: heartbeats. Many live timers, one of which is moved at a time, always by as much; and
//! `reset-earlier`, where every other deadline is earlier than the one before.

use std::time::Duration;

use super::drained::{Drained, drain};
use super::{Outcome, setup};
use crate::contender::{Contender, Producer};
use crate::drive::{BURST, Lane};
use crate::error::BenchError;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const LIVE: u64 = 100_000;
const RESETS: u64 = 2_000_000;

/// The delays of a timer, in turn.
pub(crate) type Delays = [Duration; 2];

/// Every deadline is later than the one before.
pub(crate) const HEARTBEATS: Delays = [Duration::from_secs(30); 2];

/// Every other deadline is earlier.
pub(crate) const BOTH_WAYS: Delays = [Duration::from_secs(30), Duration::from_secs(10)];

/// One thread's timers.
struct Heartbeats<P: Producer> {
    producer: P,
    timers: Slots<P::Timer>,
    delays: Delays,
    /// Which delay a timer has now, if they differ.
    which: Vec<bool>,
    next_token: u64,
    random: Random,
    left: u64,
    in_time: u64,
}

/// Measures a contender.
pub(crate) fn run<C: Contender>(plan: &Plan, delays: Delays) -> Result<Outcome, BenchError> {
    let contender = C::start(setup(plan))?;
    let threads = plan.threads as u64;
    let live = (plan.count(LIVE, 100) / threads).max(1);
    let resets = plan.count(RESETS, 100);
    let lanes = (0..threads)
        .map(|lane| Heartbeats::new(contender.producer(), lane, live as usize, resets, delays))
        .collect();
    let (lanes, section) = contender.drive(lanes);
    let Drained { wall, cpu_ns, growth_bytes } = drain(&contender, plan, &section)?;
    let in_time = lanes.iter().map(|lane| lane.in_time).sum::<u64>();
    let ops = resets * threads;
    plan.expect("timers moved", in_time, ops)?;
    plan.expect("timers fired", sink::fired(), 0)?;

    let mut outcome = Outcome::new(ops, section.wall, cpu_ns);
    outcome.add("live", live * threads);
    outcome.add("reset", in_time);
    outcome.add("fired", sink::fired());
    outcome.add("producers_cpu_ns_per_op", section.used.cpu_ns as f64 / ops as f64);
    outcome.add("drained_ns_per_op", wall.as_nanos() as f64 / ops as f64);
    outcome.add("rss_growth_mb", growth_bytes as f64 / 1e6);
    contender.report(outcome.extra());
    std::mem::forget((contender, lanes));
    Ok(outcome)
}

// === impl Heartbeats ===

impl<P: Producer> Heartbeats<P> {
    fn new(producer: P, lane: u64, live: usize, resets: u64, delays: Delays) -> Heartbeats<P> {
        Heartbeats {
            producer,
            timers: Slots::new(live),
            delays,
            which: if delays[0] == delays[1] { Vec::new() } else { vec![false; live] },
            // Tokens differ: some contenders take them for names.
            next_token: (lane + 1) << 40,
            random: Random::new(lane + 1),
            left: resets,
            in_time: 0,
        }
    }
}

impl<P: Producer> Lane for Heartbeats<P> {
    fn prepare(&mut self) {
        for at in 0..self.timers.len() {
            self.producer.schedule(self.timers.at(at), self.delays[0], self.next_token);
            self.next_token += 1;
        }
    }

    fn burst(&mut self) -> bool {
        let resets = self.left.min(BURST);
        for _ in 0..resets {
            let at = self.random.below(self.timers.len() as u64) as usize;
            let token = self.next_token;
            self.next_token += 1;
            let delay = match self.which.get_mut(at) {
                Some(which) => {
                    *which = !*which;
                    self.delays[usize::from(*which)]
                }
                None => self.delays[0],
            };
            self.in_time += u64::from(self.producer.reset(self.timers.at(at), delay, token));
        }
        self.left -= resets;
        self.left > 0
    }
}
