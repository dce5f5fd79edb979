//! Counts the transfers of cache lines per operation on simulated cores, or measures the same
//! workloads on real threads: see README.md.

#![cfg_attr(coherence, expect(dead_code, reason = "a build counts or measures"))]

#[cfg(coherence)]
mod names;
#[cfg(coherence)]
mod observer;
mod queue;
#[cfg(coherence)]
mod simulate;
mod timers;
mod workload;

#[cfg(coherence)]
fn main() {
    use simulate::{Contender, Manner};
    use workload::{Amount, Workload};
    observer::begin();
    let max: usize = std::env::args().nth(1).map_or(4, |n| n.parse().unwrap());
    let manner = Manner {
        seed: 1,
        slice: 8,
        line: 64,
        amount: Amount { warm_up: 500, ops: 500 },
    };
    for workload in Workload::ALL {
        for contender in Contender::ALL {
            if !contender.has(workload) {
                continue;
            }
            let mut cores = 1;
            while cores <= max {
                let begun = std::time::Instant::now();
                let o = contender.simulate(workload, cores, manner);
                println!(
                    "{} {} {cores}: {:.3} transfers, {:.3} invalidations, hottest {:.3}, harness {:.3}, accesses {:.1}, cold {:.3}, {:?}",
                    workload.name(),
                    contender.name(),
                    o.transfers,
                    o.invalidations,
                    o.hottest,
                    o.harness,
                    o.counts.accesses as f64 / o.ops as f64,
                    o.counts.cold as f64 / o.ops as f64,
                    begun.elapsed()
                );
                if cores * 2 > max {
                    for (name, tally) in names::by_name(&o.counts.sites).iter().take(12) {
                        println!("    {name}: {:.4}", tally.transfers() as f64 / o.ops as f64);
                    }
                }
                cores *= 2;
            }
        }
    }
}

#[cfg(not(coherence))]
fn main() {}
