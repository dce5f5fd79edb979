//! What it costs to look: statistics, the number of pending timers, a snapshot, and firing while
//! slow tasks are looked for.
//!
//! Each thread that uses an engine at the same time as others has counters of its own, which a
//! reading adds up.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::{Builder, Clock, Driver, Engine};

#[path = "common/suite.rs"]
mod suite;

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

/// Timers that fire in one turn.
const FIRED: u64 = 1000;

/// The time that turns take in which `iters` timers fire.
fn turns(builder: Builder, iters: u64) -> Duration {
    let builder = builder.shards(1).driver(Driver::Caller);
    let engine = builder.build().expect("an engine of no thread");
    let mut total = Duration::ZERO;
    let mut fired = 0;
    while fired < iters {
        for _ in 0..FIRED {
            engine.schedule_detached(Duration::ZERO, || ()).expect("there is room");
        }
        while !engine.is_empty() {
            let begun = Instant::now();
            let turn = black_box(engine.turn(0)).expect("it goes on");
            // Until the next tick, turns find nothing.
            if turn.fired > 0 {
                total += begun.elapsed();
                fired += turn.fired as u64;
            }
        }
    }
    total.mul_f64(iters as f64 / fired as f64)
}

fn fire(c: &mut Criterion) {
    let mut group = suite::group(c, "fire-and-look-for-slow-tasks", 1);
    group.bench_function("plain", |b| b.iter_custom(|iters| turns(Engine::builder(), iters)));
    let timed = || Engine::builder().slow_threshold(HOUR);
    group.bench_function("timed", |b| b.iter_custom(|iters| turns(timed(), iters)));
    if let Ok(clock) = Clock::boottime() {
        let timed = || timed().clock(clock.clone());
        group.bench_function("timed-by-boottime", |b| b.iter_custom(|n| turns(timed(), n)));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = stats, fire
}
criterion_main!(benches);
