//! Throughput of `reset`: heartbeats. 100,000 live timers; each operation moves one, picked at
//! random, to 30 s from now.

use bench_support::suite;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::{Engine, Handle};

use bench_support::delays::Delays;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LIVE: usize = 100_000;
const TIMEOUT: Duration = Duration::from_secs(30);

fn reset(c: &mut Criterion) {
    let mut group = suite::group(c, "reset-a-timeout", 1);
    for threads in producers() {
        group.bench_function(BenchmarkId::new("later", threads), |b| {
            let engine = Engine::new().expect("an engine starts");
            b.iter_custom(|iters| resets(&engine, threads, iters));
        });
    }
    group.finish();
}

fn resets(engine: &Engine, threads: usize, iters: u64) -> Duration {
    on_threads(threads, iters, |thread, ops, start| {
        let mut picks = Delays::new(thread + 1);
        let mut live: Vec<Handle> = (0..LIVE / threads)
            .map(|_| engine.schedule(TIMEOUT, || {}).expect("the engine runs"))
            .collect();
        start.wait();
        let began = Instant::now();
        for _ in 0..ops {
            let pick = picks.between(0, 1_000_000).as_micros() as usize % live.len();
            assert!(live[pick].reset(TIMEOUT).is_ok());
        }
        let time = began.elapsed();
        assert!(live.into_iter().all(Handle::cancel));
        time
    })
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = reset
}
criterion_main!(benches);
