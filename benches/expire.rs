//! Throughput of firing: timers whose deadlines spread over a minute, on an engine that is driven
//! by hand, so that only the work of turns is measured (cascades included).
//!
//! `advance` moves the clock with `advance`, for one shard; some of it with timers that may fire a
//! little later than their deadline. `turns` has a shard for each thread, and
//! threads that each run the turns of theirs.

use bench_support::suite;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::{Engine, Handle, ManualClock, When};

use bench_support::delays::Delays;
use bench_support::rounds::per_item;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Timers of one round.
const TIMERS: u64 = 100_000;
const SPREAD: Duration = Duration::from_secs(60);

/// How the timers are scheduled.
#[derive(Clone, Copy)]
enum How {
    Detached,
    Handle,
    /// With a handle, and as much slack as this part of the delay.
    Slack {
        percent: u32,
    },
}

fn expire(c: &mut Criterion) {
    let mut group = suite::group(c, "fire-a-timer", 1);
    for (name, how) in [("detached", How::Detached), ("handle", How::Handle)] {
        group.bench_function(BenchmarkId::new("advance", name), |b| {
            b.iter_custom(|iters| per_item(iters, TIMERS, || fire(how)));
        });
        for threads in producers() {
            group.bench_function(BenchmarkId::new(format!("turns-{name}"), threads), |b| {
                b.iter_custom(|iters| per_item(iters, TIMERS, || turns(threads, how)));
            });
        }
    }
    for percent in [1, 10, 100] {
        group.bench_function(BenchmarkId::new("advance-with-slack", percent), |b| {
            b.iter_custom(|iters| per_item(iters, TIMERS, || fire(How::Slack { percent })));
        });
    }
    group.finish();
}

fn fire(how: How) -> Duration {
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).shards(1).build().expect("it is valid");
    let _handles = schedule(&engine, TIMERS, 1, how);
    let start = Instant::now();
    let fired = engine.advance(2 * SPREAD).expect("the clock is manual");
    let time = start.elapsed();
    assert_eq!(fired as u64, TIMERS);
    time
}

fn turns(threads: usize, how: How) -> Duration {
    let clock = ManualClock::new();
    let builder = Engine::builder().manual_clock(&clock).shards(threads);
    let engine = builder.build().expect("it is valid");
    on_threads(threads, TIMERS, |thread, timers, start| {
        let shard = thread as usize;
        engine.bind_thread(shard).unwrap();
        let _handles = schedule(&engine, timers, thread + 1, how);
        start.wait();
        let began = Instant::now();
        drive(&engine, &clock, shard, timers);
        began.elapsed()
    })
}

/// Schedules timers on the shard of this thread; answers the handles, if there are any.
fn schedule(engine: &Engine, timers: u64, seed: u64, how: How) -> Vec<Handle> {
    let mut delays = Delays::new(seed);
    let mut handles = Vec::new();
    for _ in 0..timers {
        let delay = delays.between(0, SPREAD.as_millis() as u64);
        let handle = match how {
            How::Detached => {
                engine.schedule_detached(delay, || {}).expect("the engine runs");
                continue;
            }
            How::Handle => engine.schedule(delay, || {}),
            How::Slack { percent } => {
                engine.schedule(When::after(delay).slack(delay * percent / 100), || {})
            }
        };
        handles.push(handle.expect("the engine runs"));
    }
    handles
}

/// Runs turns of a shard until its timers have fired. Each thread moves the clock, which is
/// everyone's, by as much as its own shard has to wait; so a shard may come a little late.
fn drive(engine: &Engine, clock: &ManualClock, shard: usize, timers: u64) {
    let mut left = timers;
    while left > 0 {
        let turn = engine.turn(shard).expect("the engine is driven by hand");
        left -= turn.fired as u64;
        clock.advance(turn.sleep(engine.now()).unwrap_or(Duration::ZERO));
    }
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = expire
}
criterion_main!(benches);
