//! The order of measurements: within each run, the contenders in turn.

use crate::args::Request;
use crate::error::BenchError;
use crate::kind::{Kind, Threads, Workload};
use crate::plan::Plan;
use crate::registry::Entry;

/// Every measurement that was asked for, in order.
pub(crate) fn plans(request: &Request) -> Result<Vec<Plan>, BenchError> {
    let mut plans = Vec::new();
    let (workloads, contenders) = (request.workloads(), request.contenders());
    for &workload in &workloads {
        let able: Vec<_> = contenders
            .iter()
            .filter(|entry| entry.lacks(workload, request.tick_us).is_none())
            .collect();
        if able.is_empty() && workloads.len() == 1 {
            let why = contenders.iter().find_map(|entry| entry.lacks(workload, request.tick_us));
            return Err(BenchError::NothingToDo { workload: workload.name(), why });
        }
        for threads in threads(request, workload) {
            for &variant in variants(request, workload) {
                for _ in 0..request.runs() {
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
    let chosen = match (workload, workload.kind()) {
        (Workload::Scale, _) => request.pending.as_slice(),
        (Workload::Service | Workload::Paced, _) | (_, Kind::Purgatory) => request.rates.as_slice(),
        _ => &[],
    };
    if chosen.is_empty() { workload.variants() } else { chosen }
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
        operations: request.operations,
        limit_s: request.limit_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Task;

    fn request(line: &str) -> Request {
        let words = std::iter::once("rivals").chain(line.split_whitespace());
        match Task::parse(words.map(Into::into)) {
            Ok(Task::Measure(request, _)) => request,
            _ => panic!("{line}: not a measurement"),
        }
    }

    fn order(line: &str) -> Vec<String> {
        let plans = plans(&request(line)).unwrap();
        plans.iter().map(|plan| format!("{} {}", plan.contender, plan.threads)).collect()
    }

    #[test]
    fn contenders_take_turns_within_each_run() {
        let order = order("-w reset -c tickless,tokio -t 1,2 -r 2");
        let turns = ["tickless 1", "tokio 1", "tickless 1", "tokio 1"];
        assert_eq!(order[..4], turns);
        assert_eq!(order[4..], turns.map(|turn| turn.replace('1', "2")));
    }

    #[test]
    fn only_those_take_part_who_can() {
        assert_eq!(order("-w fire-all -c tickless,floor -r 1"), ["tickless 1"]);
        assert_eq!(order("-w reset -c tickless,tokio -r 1 --tick-us 10"), ["tickless 1"]);
        assert_eq!(order("-w handoff -c tokio -t 1,4 -r 1"), ["tokio 2"]);
        let error = plans(&request("-w idle -c floor")).unwrap_err();
        assert_eq!(error.status(), 2);
    }

    #[test]
    fn what_is_varied_can_be_chosen() {
        let pending = |line| plans(&request(line)).unwrap().iter().map(|p| p.variant).collect();
        let usual: Vec<_> = pending("-w scale -c tickless -r 1");
        assert_eq!(usual, Workload::Scale.variants());
        let chosen: Vec<_> = pending("-w scale -c tickless -r 1 --pending 5,6");
        assert_eq!(chosen, [5, 6]);
        let rates: Vec<_> = pending("-w purgatory-long -c purgatory-floor -r 1 --rates 7,8");
        assert_eq!(rates, [7, 8]);
    }
}
