//! Throughput of a map whose entries have a time to live, beside what one would write by hand: a
//! map behind a lock, whose entries have a number, and a timer of the engine for each, which finds
//! its entry by key and number.
//!
//! - look up and extend: each operation returns a value and lets its entry live for another 10 to
//!   30 s, as each request of a session does.
//! - insert and remove: each operation removes the oldest entry and inserts one under a new key.

use bench_support::suite;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::{CancelOnDrop, Engine, Handle};
use tickless_keyed::TtlMap;

use bench_support::delays::Delays;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Entries per thread.
const OUTSTANDING: u64 = 10_000;

type Value = [u64; 4];

/// One way to keep values by number. Threads use numbers of their own.
trait Cache: Sync {
    fn insert(&self, key: u64, value: Value, ttl: Duration);

    fn get_and_extend(&self, key: u64, ttl: Duration) -> Option<Arc<Value>>;

    fn remove(&self, key: u64) -> Option<Arc<Value>>;
}

struct ByHand {
    engine: Engine<(u64, u64)>,
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<u64, Entry>,
    last: u64,
}

struct Entry {
    number: u64,
    value: Arc<Value>,
    timer: CancelOnDrop<Handle<(u64, u64)>>,
}

// === impl Cache ===

impl Cache for TtlMap<u64, Value> {
    fn insert(&self, key: u64, value: Value, ttl: Duration) {
        TtlMap::insert(self, key, value, ttl).expect("it runs");
    }

    fn get_and_extend(&self, key: u64, ttl: Duration) -> Option<Arc<Value>> {
        TtlMap::get_and_extend(self, &key, ttl).ok()
    }

    fn remove(&self, key: u64) -> Option<Arc<Value>> {
        TtlMap::remove(self, &key)
    }
}

impl ByHand {
    fn new() -> ByHand {
        let entries: Arc<Mutex<Entries>> = Arc::default();
        let of_engine = entries.clone();
        let expire = move |(key, number)| {
            let mut entries = of_engine.lock().expect("nobody panics");
            let is_it = |entry: &Entry| entry.number == number;
            let found = entries.by_key.get(&key).is_some_and(is_it);
            let _expired = if found { entries.by_key.remove(&key) } else { None };
        };
        let engine = Engine::builder().shards(1).build_each(expire).expect("an engine starts");
        ByHand { engine, entries }
    }
}

impl Cache for ByHand {
    fn insert(&self, key: u64, value: Value, ttl: Duration) {
        let value = Arc::new(value);
        let mut entries = self.entries.lock().expect("nobody panics");
        entries.last += 1;
        let number = entries.last;
        let timer = self.engine.schedule(ttl, (key, number)).expect("it runs").cancel_on_drop();
        entries.by_key.insert(key, Entry { number, value, timer });
    }

    fn get_and_extend(&self, key: u64, ttl: Duration) -> Option<Arc<Value>> {
        let mut entries = self.entries.lock().expect("nobody panics");
        let entry = entries.by_key.get_mut(&key)?;
        entry.timer.reset(ttl).ok()?;
        Some(entry.value.clone())
    }

    fn remove(&self, key: u64) -> Option<Arc<Value>> {
        let removed = self.entries.lock().expect("nobody panics").by_key.remove(&key);
        removed.map(|entry| entry.value)
    }
}

/// What is measured: the `n`th operation of a thread, whose first key is given.
type Operation = fn(&dyn Cache, u64, u64, Duration);

fn extend(cache: &dyn Cache, first: u64, n: u64, ttl: Duration) {
    black_box(cache.get_and_extend(first + n % OUTSTANDING, ttl).expect("it lives"));
}

/// Removes the oldest, inserts another.
fn churn(cache: &dyn Cache, first: u64, n: u64, ttl: Duration) {
    black_box(cache.remove(first + n).expect("it lives"));
    cache.insert(first + n + OUTSTANDING, [n; 4], ttl);
}

type New = fn() -> Box<dyn Cache>;

fn ttl_map() -> Box<dyn Cache> {
    let engine = Engine::builder().shards(1).build().expect("an engine starts");
    Box::new(TtlMap::<u64, Value>::with_engine(&engine, |_, _| ()))
}

fn by_hand() -> Box<dyn Cache> {
    Box::new(ByHand::new())
}

fn ttl(c: &mut Criterion) {
    let operations: [(&str, Operation); 2] =
        [("get-and-extend-an-entry", extend), ("insert-and-remove-an-entry", churn)];
    for (name, operation) in operations {
        let mut group = suite::group(c, name, 1);
        for threads in producers() {
            let designs: [(&str, New); 2] = [("ttl-map", ttl_map), ("by-hand", by_hand)];
            for (design, new) in designs {
                group.bench_function(BenchmarkId::new(design, threads), |b| {
                    let cache = new();
                    b.iter_custom(|iters| timed(&*cache, threads, iters, operation));
                });
            }
        }
        group.finish();
    }
}

fn timed(cache: &dyn Cache, threads: usize, iters: u64, operation: Operation) -> Duration {
    on_threads(threads, iters, |thread, ops, start| {
        let first = thread << 40;
        let mut delays = Delays::new(thread + 1);
        let mut delay = || delays.between(10_000, 30_000);
        for key in first..first + OUTSTANDING {
            cache.insert(key, [key; 4], delay());
        }
        start.wait();
        let began = Instant::now();
        for n in 0..ops {
            operation(cache, first, n, delay());
        }
        let time = began.elapsed();
        let left = (first..first + ops + OUTSTANDING).filter(|key| cache.remove(*key).is_some());
        assert_eq!(left.count() as u64, OUTSTANDING);
        time
    })
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = ttl
}
criterion_main!(benches);
