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
    own_arenas();
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

/// Gives each thread a part of the allocator's memory, as on a machine with so many processors. The C
/// library has eight for each processor; more threads share them, and lines at their borders.
#[cfg(coherence)]
fn own_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: there is no other thread yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1_000);
    }
}

#[cfg(not(coherence))]
fn main() {
    measure::run();
}
