//! Throughput of timers under keys, beside what one would write by hand: a map from keys to handles
//! behind a lock; and beside the engine alone, where the caller keeps the handles.
//!
//! - `pairs`: each thread keeps 10,000 timers of 10 to 30 s; each operation cancels the oldest and
//!   schedules one under a new key.
//! - `reset`: each operation moves one of them to 10 to 30 s from now, as a request pushes out the
//!   timeout of its connection.
//! - `replace`: each operation schedules anew under a key where one waits.

#[path = "common/delays.rs"]
mod delays;
#[path = "common/threads.rs"]
mod threads;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::keyed::KeyedTimers;
use tickless::{Engine, Handle};

use delays::Delays;
use threads::{on_threads, producers};

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

fn keyed(c: &mut Criterion) {
    for threads in producers() {
        design(c, threads, "keyed", || KeyedTimers::with_engine(&engine()));
        design(c, threads, "by hand", || ByHand { engine: engine(), handles: Arc::default() });
        design(c, threads, "engine", || Alone(engine()));
    }
}

/// What is measured: the `n`th operation of a thread, whose first key is given.
type Operation<D> = fn(&D, &mut <D as Design>::Mine, u64, u64, Duration);

fn design<D: Design>(c: &mut Criterion, threads: usize, name: &str, new: impl Fn() -> D) {
    let mut bench = |group: &str, operation: Operation<D>| {
        let mut group = c.benchmark_group(format!("keyed/{group}"));
        group.bench_function(BenchmarkId::new(name, threads), |b| {
            let design = new();
            b.iter_custom(|iters| timed(&design, threads, iters, operation));
        });
        group.finish();
    };
    bench("pairs", |design, mine, first, n, delay| {
        assert!(design.cancel(mine, first + n));
        design.schedule(mine, first + n + OUTSTANDING, delay);
    });
    bench("reset", |design, mine, first, n, delay| {
        assert!(design.reset(mine, first + n % OUTSTANDING, delay));
    });
    bench("replace", |design, mine, first, n, delay| {
        design.schedule(mine, first + n % OUTSTANDING, delay);
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
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3));
    targets = keyed
}
criterion_main!(benches);
