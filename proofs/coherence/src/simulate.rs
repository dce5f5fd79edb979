//! A workload on simulated cores.

use std::iter;

use coherence_machine::{self as machine, Counts, Plan, Tally};

use crate::queue::Queue;
use crate::timers::{ByKey, Contender, Heap, Keyed, KeyedTimers, Ours, Timers, Wheels};
use crate::workload::{Amount, Ground, Job, KeyedJob, Progress, Workload};

/// How it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) seed: u64,
    pub(crate) slice: u64,
    pub(crate) line: usize,
    pub(crate) amount: Amount,
    /// With false sharing, which is to be found.
    pub(crate) is_planted: bool,
}

/// What was counted, per operation.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Transfers.
    pub(crate) transfers: f64,
    /// Cores that lose a line.
    pub(crate) invalidations: f64,
    /// Transfers of the line that has most.
    pub(crate) hottest: f64,
    /// Transfers by what the program itself does, which the others leave out.
    pub(crate) harness: f64,
    pub(crate) ops: usize,
    pub(crate) counts: Counts,
}

/// The file whose transfers are the program's own.
const HARNESS: &str = "proofs/coherence/src/queue.rs";

/// In place of the address of a lock: workers wait for the reapers here.
const REAPERS: usize = 1;

struct Simulated;

impl Ground for Simulated {
    fn count_from_here(&self) {
        machine::count_from_here();
    }

    fn wait(&self) {
        machine::pass();
    }

    fn wait_for_reapers(&self) {
        machine::wait(REAPERS);
    }

    fn reaped(&self) {
        machine::release_all(REAPERS);
    }
}

/// Counts a workload.
pub(crate) fn count(
    contender: Contender,
    workload: Workload,
    cores: usize,
    manner: Manner,
) -> Outcome {
    match (workload, contender) {
        (Workload::Keyed, Contender::Ours) => simulate_keyed::<Keyed>(cores, manner),
        (Workload::Keyed, Contender::Heap) => simulate_keyed::<ByKey<Heap>>(cores, manner),
        (Workload::Keyed, Contender::Wheels) => simulate_keyed::<ByKey<Wheels>>(cores, manner),
        (_, Contender::Ours) => simulate::<Ours>(workload, cores, manner),
        (_, Contender::Heap) => simulate::<Heap>(workload, cores, manner),
        (_, Contender::Wheels) => simulate::<Wheels>(workload, cores, manner),
    }
}

impl Manner {
    fn plan(&self, workers: usize, reapers: usize) -> Plan {
        let Manner { seed, slice, line, .. } = *self;
        Plan { cores: workers + reapers, seed, slice, line, meeting: workers }
    }
}

fn simulate<T: Timers>(workload: Workload, cores: usize, manner: Manner) -> Outcome {
    let setup = workload.setup(cores, false);
    let timers = T::new(setup);
    let queues: Vec<_> = iter::repeat_with(Queue::new).take(cores.div_ceil(2)).collect();
    let job = Job {
        workload,
        timers: &timers,
        setup,
        amount: manner.amount,
        is_planted: manner.is_planted,
        ground: &Simulated,
        queues: &queues,
        progress: &Progress::default(),
    };
    let counts = machine::run(manner.plan(setup.workers, setup.reapers), |core| job.run(core));
    Outcome::of(counts, workload.ops(setup, manner.amount))
}

fn simulate_keyed<T: KeyedTimers>(cores: usize, manner: Manner) -> Outcome {
    let setup = Workload::Keyed.setup(cores, false);
    let timers = T::new(setup);
    let job = KeyedJob { timers: &timers, amount: manner.amount, ground: &Simulated };
    let counts = machine::run(manner.plan(setup.workers, setup.reapers), |core| job.run(core));
    Outcome::of(counts, Workload::Keyed.ops(setup, manner.amount))
}

impl Outcome {
    fn of(counts: Counts, ops: usize) -> Outcome {
        let sum = |of_harness: bool| {
            let sites = counts.sites.iter().filter(|(name, _)| is_harness(name) == of_harness);
            sites.fold(Tally::default(), |sum, (_, tally)| sum.plus(*tally))
        };
        let (ours, harness) = (sum(false), sum(true));
        let hottest = counts.lines.iter().find(|line| !is_harness(&line.sites[0].0));
        let per_op = |n: u64| n as f64 / ops as f64;
        Outcome {
            transfers: per_op(ours.transfers()),
            invalidations: per_op(ours.invalidations),
            hottest: per_op(hottest.map_or(0, |line| line.transfers)),
            harness: per_op(harness.transfers()),
            ops,
            counts,
        }
    }
}

/// Whether a site is the program's own.
pub(crate) fn is_harness(site: &str) -> bool {
    site.starts_with(HARNESS)
}
