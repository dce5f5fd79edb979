//! Throughput of timers under keys, beside what one would write by hand: a map from keys to handles
//! behind a lock; and beside the engine alone, where the caller keeps the handles.
//!
//! - schedule and cancel: each thread keeps 10,000 timers of 10 to 30 s; each operation cancels
//!   the oldest and schedules one under a new key.
//! - reset: each operation moves one of them to 10 to 30 s from now, as a request pushes out the
//!   timeout of its connection.
//! - replace: each operation schedules anew under a key where one waits.

use bench_support::suite;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::{Engine, Handle};
use tickless_keyed::KeyedTimers;

use bench_support::delays::Delays;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Timers per thread.
const OUTSTANDING: u64 = 10_000;

/// One way to keep timers by number. Threads use numbers of their own.
trait Design: Sync {
    /// What a thread keeps.
    type Mine;

    fn mine(&self) -> Self::Mine;

    /// Whatever was there is cancelled.
    fn schedule(&self, mine: &mut Self::Mine, key: u64, delay: Duration);

    fn cancel(&self, mine: &mut Self::Mine, key: u64) -> bool;

    fn reset(&self, mine: &mut Self::Mine, key: u64, delay: Duration) -> bool;
}

/// The caller keeps the handles, in a place of its own for each.
struct Alone(Engine);

/// A map of handles behind a lock, from which each timer takes its own when it fires.
struct ByHand {
    engine: Engine,
    handles: Arc<Mutex<HashMap<u64, Handle>>>,
}

// === impl Design ===

impl Design for KeyedTimers<u64> {
    type Mine = ();

    fn mine(&self) {}

    fn schedule(&self, (): &mut (), key: u64, delay: Duration) {
        self.schedule_keyed(key, delay, || ()).expect("it runs");
    }

    fn cancel(&self, (): &mut (), key: u64) -> bool {
        KeyedTimers::cancel(self, &key)
    }

    fn reset(&self, (): &mut (), key: u64, delay: Duration) -> bool {
        KeyedTimers::reset(self, &key, delay).is_ok()
    }
}

impl Design for Alone {
    type Mine = Vec<Option<Handle>>;

    fn mine(&self) -> Self::Mine {
        (0..OUTSTANDING).map(|_| None).collect()
    }

    fn schedule(&self, mine: &mut Self::Mine, key: u64, delay: Duration) {
        let handle = self.0.schedule(delay, || ()).expect("it runs");
        if let Some(other) = mine[(key % OUTSTANDING) as usize].replace(handle) {
            other.cancel();
        }
    }

    fn cancel(&self, mine: &mut Self::Mine, key: u64) -> bool {
        mine[(key % OUTSTANDING) as usize].take().is_some_and(Handle::cancel)
    }

    fn reset(&self, mine: &mut Self::Mine, key: u64, delay: Duration) -> bool {
        let handle = mine[(key % OUTSTANDING) as usize].as_mut().expect("it waits");
        handle.reset(delay).is_ok()
    }
}

impl Design for ByHand {
    type Mine = ();

    fn mine(&self) {}

    fn schedule(&self, (): &mut (), key: u64, delay: Duration) {
        let handles = self.handles.clone();
        let task = move || drop(handles.lock().expect("nobody panics").remove(&key));
        let handle = self.engine.schedule(delay, task).expect("it runs");
        let other = self.handles.lock().expect("nobody panics").insert(key, handle);
        if let Some(other) = other {
            other.cancel();
        }
    }

    fn cancel(&self, (): &mut (), key: u64) -> bool {
        let handle = self.handles.lock().expect("nobody panics").remove(&key);
        handle.is_some_and(Handle::cancel)
    }

    fn reset(&self, (): &mut (), key: u64, delay: Duration) -> bool {
        let mut handles = self.handles.lock().expect("nobody panics");
        handles.get_mut(&key).is_some_and(|handle| handle.reset(delay).is_ok())
    }
}

fn engine() -> Engine {
    Engine::builder().shards(1).build().expect("an engine starts")
}

/// What is measured: the `n`th operation of a thread, whose first key is given.
type Operation<D> = fn(&D, &mut <D as Design>::Mine, u64, u64, Duration);

/// An operation, with each design.
struct Deed {
    name: &'static str,
    keyed: Operation<KeyedTimers<u64>>,
    by_hand: Operation<ByHand>,
    engine: Operation<Alone>,
}

/// Cancels the oldest, schedules another.
fn churn<D: Design>(design: &D, mine: &mut D::Mine, first: u64, n: u64, delay: Duration) {
    assert!(design.cancel(mine, first + n));
    design.schedule(mine, first + n + OUTSTANDING, delay);
}

fn reset<D: Design>(design: &D, mine: &mut D::Mine, first: u64, n: u64, delay: Duration) {
    assert!(design.reset(mine, first + n % OUTSTANDING, delay));
}

fn replace<D: Design>(design: &D, mine: &mut D::Mine, first: u64, n: u64, delay: Duration) {
    design.schedule(mine, first + n % OUTSTANDING, delay);
}

macro_rules! deed {
    ($name:literal, $operation:ident) => {
        Deed { name: $name, keyed: $operation, by_hand: $operation, engine: $operation }
    };
}

fn keyed(c: &mut Criterion) {
    let by_hand = || ByHand { engine: engine(), handles: Arc::default() };
    for deed in [
        deed!("schedule-and-cancel-under-a-key", churn),
        deed!("reset-under-a-key", reset),
        deed!("replace-under-a-key", replace),
    ] {
        let mut group = suite::group(c, deed.name, 1);
        for threads in producers() {
            let new = || KeyedTimers::with_engine(&engine());
            design(&mut group, BenchmarkId::new("keyed", threads), threads, new, deed.keyed);
            design(
                &mut group,
                BenchmarkId::new("by-hand", threads),
                threads,
                by_hand,
                deed.by_hand,
            );
            let new = || Alone(engine());
            design(&mut group, BenchmarkId::new("engine", threads), threads, new, deed.engine);
        }
        group.finish();
    }
}

fn design<D: Design>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    threads: usize,
    new: impl Fn() -> D,
    operation: Operation<D>,
) {
    group.bench_function(id, |b| {
        let design = new();
        b.iter_custom(|iters| timed(&design, threads, iters, operation));
    });
}

fn timed<D: Design>(design: &D, threads: usize, iters: u64, operation: Operation<D>) -> Duration {
    on_threads(threads, iters, |thread, ops, start| {
        let first = thread << 40;
        let mut delays = Delays::new(thread + 1);
        let mut delay = || delays.between(10_000, 30_000);
        let mut mine = design.mine();
        for key in first..first + OUTSTANDING {
            design.schedule(&mut mine, key, delay());
        }
        start.wait();
        let began = Instant::now();
        for n in 0..ops {
            operation(design, &mut mine, first, n, delay());
        }
        let time = began.elapsed();
        let left = (first..first + ops + OUTSTANDING).filter(|key| design.cancel(&mut mine, *key));
        assert_eq!(left.count() as u64, OUTSTANDING);
        time
    })
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = keyed
}
criterion_main!(benches);
