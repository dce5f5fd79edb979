//! What it costs to hand over: timers that are due at once, on an engine that is driven by hand,
//! until the last of their (empty) tasks has run, in ns per task.
//!
//! `inline` runs them in the turn. `pool` hands them to threads, in a queue that has room for a
//! few batches, so the reaper waits now and then; `channel` sends them to a thread that receives.
//! `unbounded` has room for all: the turn alone is measured, what the reaper pays.

use bench_support::suite;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::dispatch::{Channel, Full, Pool};
use tickless::{Builder, Engine, Handler, Inline, ManualClock, Task};

use bench_support::rounds::per_item;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Timers of one round.
const TIMERS: u64 = 100_000;

const DUE: Duration = Duration::from_millis(1);

fn dispatch(c: &mut Criterion) {
    let mut group = suite::group(c, "hand-a-due-task-over", 1);
    group.bench_function("inline", |b| {
        b.iter_custom(|iters| per_item(iters, TIMERS, || closures(Inline, || ())));
    });
    for threads in [1, 2, 4] {
        group.bench_function(BenchmarkId::new("pool", threads), |b| {
            b.iter_custom(|iters| {
                per_item(iters, TIMERS, || {
                    let pool = pool(threads, 1024);
                    closures(pool.clone(), || pool.shutdown().expect("this is no task of its"))
                })
            });
        });
    }
    group.bench_function("pool/unbounded", |b| {
        b.iter_custom(|iters| per_item(iters, TIMERS, || closures(pool(1, usize::MAX), || ())));
    });
    group.bench_function("channel", |b| {
        b.iter_custom(|iters| per_item(iters, TIMERS, || channel(1024)));
    });
    group.finish();
}

fn pool(threads: usize, queue_bound: usize) -> Pool {
    let builder = Pool::builder(Full::Block).threads(threads).queue_bound(queue_bound);
    builder.build().expect("it is valid")
}

/// Fires closures, and finishes; answers the time for both.
fn closures(handler: impl Handler<Task> + 'static, finish: impl FnOnce()) -> Duration {
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(handler).expect("it is valid");
    for _ in 0..TIMERS {
        engine.schedule_detached(DUE, || {}).expect("the engine runs");
    }
    fire(&engine, finish)
}

fn channel(bound: usize) -> Duration {
    let (sender, receiver) = crossbeam_channel::bounded(bound);
    let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(Channel::blocking(sender)).expect("it is valid");
    for n in 0..TIMERS {
        engine.schedule_detached(DUE, n).expect("the engine runs");
    }
    let all = thread::spawn(move || receiver.into_iter().take(TIMERS as usize).count());
    fire(&engine, || assert_eq!(all.join().expect("it does not panic") as u64, TIMERS))
}

fn fire<T: Send + 'static>(engine: &Engine<T>, finish: impl FnOnce()) -> Duration {
    let start = Instant::now();
    let fired = engine.advance(DUE).expect("the clock is manual");
    finish();
    let time = start.elapsed();
    assert_eq!(fired as u64, TIMERS);
    time
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = dispatch
}
criterion_main!(benches);
