//! What continuous integration checks: transfers per operation stay below limits. An engine that
//! puts two threads' data on one line, or writes a shared count on a hot path, passes one of them.

use std::process::ExitCode;

use crate::names;
use crate::simulate::{Manner, Outcome, count};
use crate::timers::Contender;
use crate::workload::{Amount, Workload};

/// A workload, on so many cores, and the most transfers per operation.
struct Limit {
    workload: Workload,
    cores: &'static [usize],
    warm_up: usize,
    ops: usize,
    most: f64,
}

const LIMITS: [Limit; 8] = [
    Limit { workload: Workload::Own, cores: &[1, 4, 16, 64], warm_up: 1_500, ops: 300, most: 0.02 },
    Limit { workload: Workload::OwnInTime, cores: &[8], warm_up: 4_000, ops: 300, most: 0.4 },
    Limit { workload: Workload::Bursts, cores: &[2, 16], warm_up: 5_000, ops: 2_000, most: 0.15 },
    Limit { workload: Workload::Handoff, cores: &[2, 16], warm_up: 3_000, ops: 300, most: 3.5 },
    Limit { workload: Workload::Reset, cores: &[2, 16], warm_up: 100, ops: 300, most: 0.02 },
    Limit { workload: Workload::Fire, cores: &[2, 16], warm_up: 1_000, ops: 1_000, most: 3.0 },
    Limit { workload: Workload::FireOwn, cores: &[2, 16], warm_up: 2_000, ops: 300, most: 0.3 },
    Limit { workload: Workload::Keyed, cores: &[2, 16], warm_up: 1_000, ops: 300, most: 3.0 },
];

/// Without `LONG` in the environment, on no more cores: 64 take the longest.
const FEW: usize = 16;

pub(crate) fn run() -> ExitCode {
    let most = if std::env::var_os("LONG").is_some() { usize::MAX } else { FEW };
    let mut failed = 0;
    for limit in LIMITS {
        for &cores in limit.cores.iter().filter(|&&cores| cores <= most) {
            let outcome = outcome(&limit, cores, false);
            failed += u32::from(!is_within(&limit, cores, &outcome));
        }
    }
    // The gate finds what it is for: the counters of neighbours on one line.
    let own = &LIMITS[0];
    let planted = outcome(own, 4, true);
    println!("with false sharing on purpose: {:.3} transfers", planted.transfers);
    if planted.transfers <= own.most {
        println!("FAILED: false sharing was not found");
        failed += 1;
    }
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn outcome(limit: &Limit, cores: usize, is_planted: bool) -> Outcome {
    let amount = Amount { warm_up: limit.warm_up, ops: limit.ops };
    let manner = Manner { seed: 1, slice: 16, line: 64, amount, is_planted };
    count(Contender::Ours, limit.workload, cores, manner)
}

/// Prints the result, and where the transfers come from if there are too many.
fn is_within(limit: &Limit, cores: usize, outcome: &Outcome) -> bool {
    let is_within = outcome.transfers <= limit.most;
    let (name, most) = (limit.workload.name(), limit.most);
    let verdict = if is_within { "" } else { "FAILED: " };
    println!(
        "{verdict}{name}, {cores} cores: {:.3} transfers of at most {most} per operation",
        outcome.transfers
    );
    if !is_within {
        for (name, tally) in names::by_name(&outcome.counts.sites).iter().take(10) {
            println!("    {:8.4}  {name}", tally.transfers() as f64 / outcome.ops as f64);
        }
        let hottest = outcome.counts.lines.iter().take(3);
        for line in hottest {
            let sites: Vec<_> = line.sites.iter().map(|(site, _)| names::name(site)).collect();
            println!("    one line: {}", sites.join(", "));
        }
    }
    is_within
}
