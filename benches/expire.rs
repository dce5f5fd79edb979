//! Throughput of firing: timers whose deadlines spread over a minute, on an engine that is driven
//! by hand, so that only the work of turns is measured (cascades included).

#[path = "common/delays.rs"]
mod delays;

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::{Engine, ManualClock};

use delays::Delays;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Timers of one round.
const TIMERS: u64 = 100_000;
const SPREAD: Duration = Duration::from_secs(60);

fn expire(c: &mut Criterion) {
    let mut group = c.benchmark_group("expire");
    for with_handle in [false, true] {
        let name = if with_handle { "handle" } else { "detached" };
        group.bench_function(BenchmarkId::new("fire", name), |b| {
            b.iter_custom(|iters| {
                let rounds = iters.div_ceil(TIMERS);
                let time: Duration = (0..rounds).map(|round| fire_all(round, with_handle)).sum();
                // Whole rounds are run; the answer is for as many timers as were asked for.
                time.mul_f64(iters as f64 / (rounds * TIMERS) as f64)
            });
        });
    }
    group.finish();
}

fn fire_all(round: u64, with_handle: bool) -> Duration {
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).shards(1).build().expect("it is valid");
    let mut delays = Delays::new(round + 1);
    let mut handles = Vec::with_capacity(TIMERS as usize);
    for _ in 0..TIMERS {
        let delay = delays.between(0, SPREAD.as_millis() as u64);
        if with_handle {
            handles.push(engine.schedule(delay, || {}).expect("the engine runs"));
        } else {
            engine.schedule_detached(delay, || {}).expect("the engine runs");
        }
    }
    let start = Instant::now();
    let fired = engine.advance(SPREAD).expect("the clock is manual");
    let time = start.elapsed();
    assert_eq!(fired as u64, TIMERS);
    time
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).measurement_time(Duration::from_secs(3));
    targets = expire
}
criterion_main!(benches);
