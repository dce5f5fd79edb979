//! Timeouts and resets of asynchronous code: CPU time of the whole process per operation,
//! with one task per thread. `tokio` is tokio's own timer, on the same runtime. The bodies are
//! described in `benches/common/src/sleeps.rs`.

use bench_support::suite;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

use bench_support::sleeps::{Work, round, runtime, works};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn future(c: &mut Criterion) {
    for Work { name, ours, theirs } in works() {
        let mut group = suite::group(c, name, 1);
        for (side, body) in [("tickless", ours), ("tokio", theirs)] {
            for threads in [1, 2] {
                let runtime = runtime(threads);
                group.bench_function(BenchmarkId::new(side, threads), |b| {
                    b.iter_custom(|iters| {
                        let each = iters.div_ceil(threads);
                        let time = round(&runtime, threads, body, each);
                        time.mul_f64(iters as f64 / (each * threads) as f64)
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = future
}
criterion_main!(benches);
