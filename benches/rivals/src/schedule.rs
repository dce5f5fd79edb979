//! The order of measurements: within each run, the contenders in turn.

use crate::args::Request;
use crate::error::BenchError;
use crate::plan::Plan;
use crate::registry::Entry;
use crate::workload::{Threads, Workload};

/// Every measurement that was asked for, in order.
pub(crate) fn plans(request: &Request) -> Result<Vec<Plan>, BenchError> {
    let mut plans = Vec::new();
    for &workload in &request.workloads {
        let able: Vec<_> = request
            .contenders
            .iter()
            .filter(|entry| entry.lacks(workload, request.tick_us).is_none())
            .collect();
        if able.is_empty() && request.workloads.len() == 1 {
            return Err(BenchError::NothingToDo { workload: workload.name() });
        }
        for threads in threads(request, workload) {
            for &variant in variants(request, workload) {
                for _ in 0..request.runs {
                    plans.extend(
                        able.iter().map(|entry| plan(request, workload, threads, variant, entry)),
                    );
                }
            }
        }
    }
    Ok(plans)
}

fn threads(request: &Request, workload: Workload) -> Vec<usize> {
    match workload.threads() {
        Threads::Any => request.threads.clone(),
        Threads::Fixed(threads) => vec![threads],
    }
}

fn variants(request: &Request, workload: Workload) -> &[u64] {
    match (workload, request.pending.as_slice()) {
        (Workload::Scale, pending @ [_, ..]) => pending,
        _ => workload.variants(),
    }
}

fn plan(
    request: &Request,
    workload: Workload,
    threads: usize,
    variant: u64,
    entry: &Entry,
) -> Plan {
    Plan {
        contender: entry.name.to_owned(),
        workload,
        threads,
        scale: request.scale,
        tick_us: request.tick_us,
        variant,
        limit_s: request.limit_s,
    }
}
