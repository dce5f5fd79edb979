//! Throughput of the hashed wheel: pairs of a new timeout and a cancelled one, beside the engine
//! that it stands on.
//!
//! Each thread keeps 10,000 timeouts of 10 to 30 s; each operation cancels the oldest and makes a
//! new one. `closure` shares nothing; `shared` arms one task again and again.

use bench_support::suite;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::Engine;
use tickless_netty::{HashedWheelTimer, IntoTask, Timeout, TimerTask};

use bench_support::delays::Delays;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OUTSTANDING: usize = 10_000;

const TICK: Duration = Duration::from_millis(1);

fn hashed(c: &mut Criterion) {
    let mut group = suite::group(c, "schedule-and-cancel-a-netty-timeout", 1);
    for threads in producers() {
        let timer = || {
            let builder = HashedWheelTimer::builder().tick_duration(TICK);
            builder.build().expect("a timer starts")
        };
        group.bench_function(BenchmarkId::new("closure", threads), |b| {
            let timer = timer();
            let make = |delay| timer.new_timeout(|_: &Timeout| (), delay).expect("it runs");
            b.iter_custom(|iters| pairs(threads, iters, make, |timeout| timeout.cancel()));
        });
        group.bench_function(BenchmarkId::new("shared-task", threads), |b| {
            let timer = timer();
            let task: Arc<dyn TimerTask> = (|_: &Timeout| ()).into_task();
            let make = |delay| timer.new_timeout(task.clone(), delay).expect("it runs");
            b.iter_custom(|iters| pairs(threads, iters, make, |timeout| timeout.cancel()));
        });
        group.bench_function(BenchmarkId::new("engine", threads), |b| {
            let engine = Engine::builder().shards(1).build().expect("an engine starts");
            let make = |delay| engine.schedule(delay, || ()).expect("it runs");
            b.iter_custom(|iters| pairs(threads, iters, make, |handle| handle.cancel()));
        });
    }
    group.finish();
}

fn pairs<T>(
    threads: usize,
    iters: u64,
    make: impl Fn(Duration) -> T + Sync,
    cancel: impl Fn(T) -> bool + Sync,
) -> Duration {
    on_threads(threads, iters, |thread, ops, start| {
        let mut delays = Delays::new(thread + 1);
        let mut make = || make(delays.between(10_000, 30_000));
        let mut ring: VecDeque<T> = (0..OUTSTANDING).map(|_| make()).collect();
        start.wait();
        let began = Instant::now();
        for _ in 0..ops {
            let oldest = ring.pop_front().expect("the ring is full");
            assert!(cancel(oldest));
            ring.push_back(make());
        }
        let time = began.elapsed();
        assert!(ring.into_iter().all(&cancel));
        time
    })
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = hashed
}
criterion_main!(benches);
