//! Delayed operations: what it costs to let one wait and to end it, and to check a key.
//!
//! Each thread keeps 10,000 operations waiting under keys out of 100; one more comes, the oldest
//! ends. Timeouts are long, so that none comes.

use bench_support::suite;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tickless_purgatory::{Delayed, Operation, Purgatory};

use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OUTSTANDING: usize = 10_000;
const KEYS: u64 = 100;
/// From one key of an operation to the next.
const STRIDE: u64 = 37;
const TIMEOUT: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Request {
    is_ready: AtomicBool,
}

impl Operation for Request {
    fn try_complete(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    fn on_complete(&self) {
        black_box(self);
    }
}

type Requests = Purgatory<u64, Request>;

fn register(requests: &Requests, keys: impl Iterator<Item = u64>) -> Delayed<u64, Request> {
    let arrival = requests.try_complete_else_watch(Arc::default(), keys, TIMEOUT);
    arrival.expect("it is let in").into_delayed().expect("it is not ready")
}

/// Registers one, and forces the oldest.
fn force(c: &mut Criterion) {
    let mut group = suite::group(c, "register-and-end-an-operation", 1);
    for threads in producers() {
        for keys in [1, 3, 8] {
            let name = BenchmarkId::new(format!("{keys}-keys"), threads);
            group.bench_function(name, |b| {
                let requests = Requests::new().expect("an engine starts");
                b.iter_custom(|iters| forces(&requests, threads, keys, iters));
            });
        }
    }
    group.finish();
}

fn forces(requests: &Requests, threads: usize, keys: u64, iters: u64) -> Duration {
    on_threads(threads, iters, |thread, ops, start| {
        let mut latest = thread;
        let mut come = || {
            latest += 1;
            register(requests, (0..keys).map(|i| (latest + i * STRIDE) % KEYS))
        };
        let mut ring: VecDeque<_> = (0..OUTSTANDING).map(|_| come()).collect();
        start.wait();
        let began = Instant::now();
        for _ in 0..ops {
            ring.push_back(come());
            let oldest = ring.pop_front().expect("the ring is full");
            assert!(oldest.force_complete());
        }
        let time = began.elapsed();
        assert!(ring.into_iter().all(|delayed| delayed.force_complete()));
        time
    })
}

/// Registers one under a key of its own, and completes it by a check.
fn complete(c: &mut Criterion) {
    let mut group = suite::group(c, "register-and-complete-an-operation", 1);
    group.bench_function("by-a-check-of-its-key", |b| {
        let requests = Requests::new().expect("an engine starts");
        let mut key = 0;
        b.iter(|| {
            key += 1;
            let delayed = register(&requests, [key].into_iter());
            delayed.operation().is_ready.store(true, Ordering::Release);
            assert_eq!(requests.check_and_complete(&key), 1);
        });
    });
    group.finish();
}

/// Checks a key under which so many wait, none of which can complete.
fn check(c: &mut Criterion) {
    let mut group = suite::group(c, "check-the-operations-of-a-key", 1);
    for waiting in [0, 1, 100, 10_000] {
        // A check looks at each of those that wait.
        group.throughput(Throughput::Elements(waiting.max(1)));
        let requests = Requests::new().expect("an engine starts");
        (0..waiting).for_each(|_| drop(register(&requests, [7].into_iter())));
        group.bench_function(BenchmarkId::from_parameter(waiting), |b| {
            b.iter(|| assert_eq!(requests.check_and_complete(&7), 0));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = force, complete, check
}
criterion_main!(benches);
