//! Running one body on several threads at once.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// Thread counts to measure: 1, 2, and one per core.
pub fn producers() -> Vec<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut counts = vec![1, 2, cores];
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Runs `body(thread, ops, start)` on `threads` threads, `iters` operations in all. Each body
/// prepares, waits at `start`, and answers how long its operations took; the longest counts.
pub fn on_threads(
    threads: usize,
    iters: u64,
    body: impl Fn(u64, u64, &Barrier) -> Duration + Sync,
) -> Duration {
    let ops = iters.div_ceil(threads as u64);
    let (start, body) = (&Barrier::new(threads), &body);
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads as u64).map(|i| scope.spawn(move || body(i, ops, start))).collect();
        let times = running.into_iter().map(|thread| thread.join().expect("a body does not panic"));
        times.max().expect("there is a thread")
    })
}
