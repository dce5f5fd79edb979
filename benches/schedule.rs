//! Throughput of `schedule` where no seat is free: an entry from the free list, one push.

use bench_support::suite;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::Engine;

use bench_support::delays::Delays;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Timers that are pending at most: what is scheduled beyond goes to a new engine.
const ROUND: u64 = 200_000;

fn schedule(c: &mut Criterion) {
    let mut group = suite::group(c, "schedule-a-timer", 1);
    for threads in producers() {
        group.bench_function(BenchmarkId::new("new-memory", threads), |b| {
            b.iter_custom(|iters| rounds(threads, iters));
        });
    }
    group.finish();
}

fn rounds(threads: usize, iters: u64) -> Duration {
    let mut left = iters;
    let mut time = Duration::ZERO;
    while left > 0 {
        let ops = left.min(ROUND);
        left -= ops;
        let engine = Engine::new().expect("an engine starts");
        time += on_threads(threads, ops, |thread, ops, start| {
            let mut delays = Delays::new(thread + 1);
            start.wait();
            let began = Instant::now();
            for _ in 0..ops {
                let delay = delays.between(10_000, 30_000);
                engine.schedule_detached(delay, || {}).expect("the engine runs");
            }
            began.elapsed()
        });
        // The engine goes here, with what is pending: not part of the measure.
    }
    time
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = schedule
}
criterion_main!(benches);
