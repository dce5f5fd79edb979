//! `paced`: request timeouts at a rate that every contender can keep up with. An open loop: a
//! round's cancels and schedules come at their time, however long those before them took.
//!
//! The variant says how many pairs of a cancel and a schedule come per second, over all threads.
//! They come a round per millisecond, because a finer pace would cost more than the timers. What
//! remains is mostly sleeping and waking up: the record has it as `load_cpu_ns_per_op`, measured in
//! the same process with the same load on timers that do nothing, and the contender `floor-load` is
//! that load alone.

use std::time::Duration;

use super::churn::Churn;
use super::drained::{Drained, drain};
use super::pace::{ROUND, rounds};
use super::{Outcome, setup};
use crate::contender::nothing::Nothing;
use crate::contender::{Contender, Producer, on_threads};
use crate::drive::Lane;
use crate::error::BenchError;
use crate::machine::clock;
use crate::plan::Plan;
use crate::sink;

const RING: u64 = 10_000;
const WATCH: Duration = Duration::from_secs(4);

/// One thread's share of the load.
struct Paced<P: Producer> {
    churn: Churn<P>,
    pairs_per_round: u64,
    rounds: u64,
    done: u64,
    begun_ns: u64,
    /// Rounds that began a whole round late, or later.
    late_rounds: u64,
}

/// Measures a contender.
pub(crate) fn run<C: Contender>(plan: &Plan) -> Result<Outcome, BenchError> {
    let load_ns = load_alone_ns(plan);
    let contender = C::start(setup(plan))?;
    let (lanes, section) = contender.drive(lanes(plan, || contender.producer()));
    let Drained { cpu_ns, .. } = drain(&contender, plan, &section)?;
    let ops = lanes.iter().map(Paced::pairs).sum::<u64>();
    let cancelled = lanes.iter().map(|lane| lane.churn.cancelled()).sum::<u64>();
    plan.expect("timers cancelled", cancelled, ops)?;
    plan.expect("timers fired", sink::fired(), 0)?;

    let mut outcome = Outcome::new(ops, section.wall, cpu_ns);
    let late_rounds = lanes.iter().map(|lane| lane.late_rounds).sum::<u64>();
    outcome.add("cancelled", cancelled);
    outcome.add("fired", sink::fired());
    outcome.add("per_s", ops as f64 / section.wall.as_secs_f64());
    outcome.add("load_cpu_ns_per_op", load_ns);
    outcome.add("timers_cpu_ns_per_op", cpu_ns as f64 / ops as f64 - load_ns);
    outcome.add("late_rounds", late_rounds);
    outcome.add("switches", section.used.switches);
    contender.report(outcome.extra());
    std::mem::forget((contender, lanes));
    Ok(outcome)
}

fn lanes<P: Producer>(plan: &Plan, producer: impl Fn() -> P) -> Vec<Paced<P>> {
    let threads = plan.threads as u64;
    let rounds_per_s = (Duration::from_secs(1).as_nanos() / ROUND.as_nanos()) as u64;
    let ring = plan.count(RING, 16) as usize;
    let lane = |lane| Paced {
        churn: Churn::new(producer(), lane, ring, 0),
        pairs_per_round: plan.variant.div_ceil(rounds_per_s * threads).max(1),
        rounds: rounds(plan.time(WATCH, Duration::from_millis(20))),
        done: 0,
        begun_ns: 0,
        late_rounds: 0,
    };
    (0..threads).map(lane).collect()
}

/// CPU time per pair of the same load, at the same rate, on timers that do nothing.
fn load_alone_ns(plan: &Plan) -> f64 {
    let (lanes, section) = on_threads(&Nothing, lanes(plan, || Nothing));
    section.used.cpu_ns as f64 / lanes.iter().map(Paced::pairs).sum::<u64>() as f64
}

// === impl Paced ===

impl<P: Producer> Paced<P> {
    fn pairs(&self) -> u64 {
        self.done * self.pairs_per_round
    }

    /// When the next round comes.
    fn next_ns(&self) -> u64 {
        self.begun_ns + self.done * clock::ns(ROUND)
    }
}

impl<P: Producer> Lane for Paced<P> {
    fn prepare(&mut self) {
        self.churn.prepare();
    }

    fn burst(&mut self) -> bool {
        let now_ns = clock::now_ns();
        if self.begun_ns == 0 {
            self.begun_ns = now_ns;
        }
        self.late_rounds += u64::from(now_ns >= self.next_ns() + clock::ns(ROUND));
        self.churn.steps(self.pairs_per_round);
        self.done += 1;
        self.done < self.rounds
    }

    fn pause(&self) -> Duration {
        Duration::from_nanos(self.next_ns().saturating_sub(clock::now_ns()))
    }
}
