//! `handoff`: one thread schedules, another cancels; timers travel in batches.

use crossbeam_channel::{Receiver, Sender, bounded};

use super::drained::{Drained, drain};
use super::{Outcome, churn, setup};
use crate::contender::{Contender, Producer, on_threads};
use crate::drive::Lane;
use crate::error::BenchError;
use crate::plan::Plan;
use crate::random::Random;
use crate::sink;
use crate::slots::Slots;

const TIMERS: u64 = 2_000_000;
const BATCH: u64 = 64;

/// About as many timers are on the way as `cancel-heavy` has in its ring.
const BATCHES: usize = 156;

/// One of the two threads.
enum Side<P: Producer> {
    Scheduling { producer: P, random: Random, token: u64, left: u64, ways: Ways<P::Timer> },
    Cancelling { producer: P, cancelled: u64, left: u64, ways: Ways<P::Timer> },
}

/// Full batches one way, empty ones back.
struct Ways<T> {
    from: Receiver<Slots<T>>,
    to: Sender<Slots<T>>,
}

/// Measures a contender.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let contender = C::start(setup(plan))?;
    let batches = plan.count(TIMERS, 2 * BATCH) / BATCH;
    let lanes = contender.inside(|| sides(&contender, batches));
    // Threads, also where others have tasks: a task must not wait for a channel.
    let (lanes, section) = on_threads(&contender, lanes);
    let Drained { wall, cpu_ns, growth_bytes } = drain(&contender, plan, &section)?;
    let cancelled = lanes.iter().map(Side::cancelled).sum();
    let ops = batches * BATCH;
    plan.expect("timers cancelled", cancelled, ops)?;
    plan.expect("timers fired", sink::fired(), 0)?;

    let mut outcome = Outcome::new(ops, section.wall, cpu_ns);
    outcome.add("scheduled", ops);
    outcome.add("cancelled", cancelled);
    outcome.add("fired", sink::fired());
    outcome.add("drained_ns_per_op", wall.as_nanos() as f64 / ops as f64);
    outcome.add("rss_growth_mb", growth_bytes as f64 / 1e6);
    contender.report(outcome.extra());
    std::mem::forget((contender, lanes));
    Ok(outcome)
}

fn sides<C: Contender>(contender: &C, batches: u64) -> Vec<Side<C::Producer>> {
    let (full_to, full_from) = bounded(BATCHES);
    let (empty_to, empty_from) = bounded(BATCHES);
    for _ in 0..BATCHES {
        empty_to.send(Slots::new(BATCH as usize)).expect("there is room");
    }
    vec![
        Side::Scheduling {
            producer: contender.producer(),
            random: Random::new(1),
            token: 1 << 40,
            left: batches,
            ways: Ways { from: empty_from, to: full_to },
        },
        Side::Cancelling {
            producer: contender.producer(),
            cancelled: 0,
            left: batches,
            ways: Ways { from: full_from, to: empty_to },
        },
    ]
}

// === impl Side ===

impl<P: Producer> Side<P> {
    fn cancelled(&self) -> u64 {
        match self {
            Side::Scheduling { .. } => 0,
            Side::Cancelling { cancelled, .. } => *cancelled,
        }
    }
}

impl<P: Producer> Lane for Side<P> {
    fn prepare(&mut self) {}

    fn burst(&mut self) -> bool {
        match self {
            Side::Scheduling { producer, random, token, left, ways } => {
                ways.pass_on(|timers| {
                    for at in 0..timers.len() {
                        producer.schedule(timers.at(at), churn::delay(random), *token);
                        *token += 1;
                    }
                });
                *left -= 1;
                *left > 0
            }
            Side::Cancelling { producer, cancelled, left, ways } => {
                ways.pass_on(|timers| {
                    for at in 0..timers.len() {
                        *cancelled += u64::from(producer.cancel(timers.at(at)));
                    }
                });
                *left -= 1;
                *left > 0
            }
        }
    }
}

// === impl Ways ===

impl<T: Default> Ways<T> {
    /// Receives a batch, has something done to it, and sends it to the other side (which may be
    /// done with all of its own).
    fn pass_on(&self, work: impl FnOnce(&mut Slots<T>)) {
        let mut timers = self.from.recv().expect("the other side sends as many as are received");
        work(&mut timers);
        let _ = self.to.send(timers);
    }
}
