//! Timeouts, resets and sleeps of asynchronous code: CPU time of the whole process per operation,
//! with one task per thread. `tokio` is tokio's own timer, on the same runtime. The bodies are
//! described in `benches/common/sleeps.rs`.

#[path = "common/sleeps.rs"]
mod sleeps;
#[path = "common/suite.rs"]
mod suite;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

use sleeps::{CROWD, CROWDED, Work, round, runtime, works};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn future(c: &mut Criterion) {
    for Work { name, ours, theirs } in works() {
        let mut group = suite::group(c, name, 1);
        if name == CROWDED {
            // Most of the time on the wall is waiting, and CPU time is what is measured.
            group.warm_up_time(Duration::from_millis(10));
            group.measurement_time(Duration::from_millis(100));
        }
        for (side, body) in [("tickless", ours), ("tokio", theirs)] {
            for threads in [1, 2] {
                let runtime = runtime(threads);
                group.bench_function(BenchmarkId::new(side, threads), |b| {
                    b.iter_custom(|iters| {
                        // Sleeps are awaited in crowds.
                        let each = iters.div_ceil(threads).next_multiple_of(CROWD);
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
