//! What it costs to look: statistics, the number of pending timers, and a snapshot.
//!
//! Each thread that uses an engine at the same time as others has counters of its own, which a
//! reading adds up.

use bench_support::suite;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::Engine;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HOUR: Duration = Duration::from_secs(3600);

/// An engine that so many threads have used at one time.
fn used_by(threads: usize) -> Engine {
    let engine = Engine::builder().shards(2).build().expect("an engine starts");
    let all = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let timer = engine.schedule(HOUR, || ()).expect("there is room");
                all.wait();
                timer.cancel();
            });
        }
    });
    engine
}

fn stats(c: &mut Criterion) {
    let mut group = suite::group(c, "read-statistics", 1);
    for threads in [1, 16, 1000] {
        let engine = used_by(threads);
        for _ in 0..1000 {
            engine.schedule_detached(Duration::ZERO, || ()).expect("there is room");
        }
        while !engine.is_empty() {
            thread::yield_now();
        }
        let id = |what: &str| BenchmarkId::new(what, threads);
        group.bench_function(id("stats"), |b| b.iter(|| black_box(engine.stats())));
        group.bench_function(id("len"), |b| b.iter(|| black_box(engine.len())));
    }
    group.finish();
    let mut group = suite::group(c, "take-a-snapshot", 1);
    let engine = used_by(1);
    for n in 0..100_000 {
        engine.schedule_detached(HOUR + HOUR / 10_000 * n, || ()).expect("there is room");
    }
    group.bench_function("of-timers/100000", |b| b.iter(|| black_box(engine.snapshot())));
    group.finish();
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = stats
}
criterion_main!(benches);
