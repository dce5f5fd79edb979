//! Throughput of schedule + cancel pairs: request timeouts, nearly all cancelled.
//!
//! Each thread keeps 10,000 timers of 10 to 30 s; each operation cancels the oldest and schedules
//! a new one. And the same by one thread on one engine after the other, of which it uses many, and
//! with timers whose tasks can be waited for.
//!
//! The end of a connection: all its timers are cancelled at once, in a scope and in a vector.

use bench_support::suite;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::wait::Ended;
use tickless::{Driver, Engine, Handle};

use bench_support::delays::Delays;
use bench_support::rounds::per_item;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OUTSTANDING: usize = 10_000;

/// Of many engines, as of a program's parts that know nothing of each other.
const ENGINES: [usize; 3] = [1, 10, 1_000];

/// Of one connection, and of all that end in one round.
const TIMERS: [u64; 2] = [8, 1_000];
const CONNECTED: u64 = 8_000;

fn cancel(c: &mut Criterion) {
    let mut group = suite::group(c, "schedule-and-cancel-a-timeout", 1);
    for threads in producers() {
        group.bench_function(BenchmarkId::new("threads", threads), |b| {
            let engine = Engine::new().expect("an engine starts");
            b.iter_custom(|iters| pairs(&engine, threads, iters));
        });
    }
    group.finish();
    let mut group = suite::group(c, "schedule-and-cancel-on-many-engines", 1);
    for engines in ENGINES {
        group.bench_function(BenchmarkId::new("engines", engines), |b| {
            let builder = || Engine::builder().shards(1).slots(64).driver(Driver::Caller).build();
            let all: Vec<Engine> =
                (0..engines).map(|_| builder().expect("an engine starts")).collect();
            let mut next = all.iter().cycle();
            b.iter(|| {
                let engine = next.next().expect("it goes round");
                let delay = Duration::from_secs(20);
                assert!(engine.schedule(delay, || {}).expect("the engine runs").cancel());
            });
        });
    }
    group.finish();
    let mut group = suite::group(c, "schedule-and-cancel-a-task-to-wait-for", 1);
    let engine = Engine::new().expect("an engine starts");
    let delay = Duration::from_secs(20);
    group.bench_function("not-used", |b| {
        b.iter(|| assert!(engine.schedule(delay, || {}).expect("the engine runs").cancel()));
    });
    group.bench_function("used", |b| {
        b.iter(|| {
            let mut timer = engine.schedule_waitable(delay, || {}).expect("the engine runs");
            assert_eq!(timer.cancel_wait(), Ok(Ended::Cancelled));
        });
    });
    group.finish();
}

/// Ends connections that have some timers each.
fn connections(c: &mut Criterion) {
    let mut group = suite::group(c, "cancel-the-timers-of-a-connection", 1);
    for timers in TIMERS {
        let rounds = (CONNECTED / timers) as usize;
        let engine = Engine::new().expect("an engine starts");
        let delays = || (0..timers).map(|n| Duration::from_millis(10_000 + n));
        group.bench_function(BenchmarkId::new("scope", timers), |b| {
            let fill = || {
                let mut scope = engine.scope();
                for delay in delays() {
                    scope.schedule(delay, || {}).expect("the engine runs");
                }
                scope
            };
            b.iter_custom(|wanted| {
                per_item(wanted, CONNECTED, || timed(rounds, fill, |mut scope| scope.cancel_all()))
            });
        });
        group.bench_function(BenchmarkId::new("vector", timers), |b| {
            let schedule = |delay| engine.schedule(delay, || {}).expect("the engine runs");
            let fill = || delays().map(schedule).collect();
            let cancel = |all: Vec<Handle>| all.into_iter().map(Handle::cancel).filter(|it| *it);
            b.iter_custom(|wanted| {
                per_item(wanted, CONNECTED, || timed(rounds, fill, |all| cancel(all).count()))
            });
        });
    }
    group.finish();
}

/// How long `cancel` takes for all that `fill` makes; it returns how many it cancelled.
fn timed<C>(rounds: usize, fill: impl Fn() -> C, cancel: impl Fn(C) -> usize) -> Duration {
    let all: Vec<C> = (0..rounds).map(|_| fill()).collect();
    let began = Instant::now();
    let cancelled: usize = all.into_iter().map(cancel).sum();
    let time = began.elapsed();
    assert_eq!(cancelled as u64, CONNECTED);
    time
}

fn pairs(engine: &Engine, threads: usize, iters: u64) -> Duration {
    on_threads(threads, iters, |thread, ops, start| {
        let mut delays = Delays::new(thread + 1);
        let mut schedule = || -> Handle {
            let delay = delays.between(10_000, 30_000);
            engine.schedule(delay, || {}).expect("the engine runs")
        };
        let mut ring: VecDeque<Handle> = (0..OUTSTANDING).map(|_| schedule()).collect();
        start.wait();
        let began = Instant::now();
        for _ in 0..ops {
            let oldest = ring.pop_front().expect("the ring is full");
            assert!(oldest.cancel());
            ring.push_back(schedule());
        }
        let time = began.elapsed();
        assert!(ring.into_iter().all(Handle::cancel));
        time
    })
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = cancel, connections
}
criterion_main!(benches);
