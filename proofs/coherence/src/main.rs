//! Counts the transfers of cache lines per operation on simulated cores, or measures the same
//! workloads on real threads: see README.md.
//!
//! Built with `--cfg coherence` it counts: `gate` (the default), `table BASE`, or
//! `count WORKLOAD CORES`. Built without, it measures.

#[cfg(coherence)]
mod gate;
#[cfg(not(coherence))]
mod measure;
#[cfg(coherence)]
mod names;
#[cfg(coherence)]
mod observer;
mod queue;
#[cfg(coherence)]
mod simulate;
#[cfg(coherence)]
mod table;
mod timers;
mod workload;

#[cfg(coherence)]
fn main() -> std::process::ExitCode {
    observer::begin();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["gate"] => gate::run(),
        ["table", base] => table::run(base),
        ["count", workload, cores] => table::count_one(workload, cores),
        _ => {
            eprintln!("gate | table BASE | count WORKLOAD CORES");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(coherence))]
fn main() {
    measure::run();
}
