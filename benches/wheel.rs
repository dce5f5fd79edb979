//! The local wheel, operation by operation: nanoseconds per timer.
//!
//! Every round builds a wheel of the size in the name and times one operation on all of its
//! timers; what criterion calls an iteration is one timer. Deadlines are uniform over a minute
//! of milliseconds, in an order fixed by a seed.
//!
//! `cargo bench --bench wheel`, or a part of it: `cargo bench --bench wheel -- expire`.

#[path = "common/rounds.rs"]
mod rounds;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use tickless::Tick;
use tickless::local::{Key, Wheel};

use rounds::per_item;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How far ahead deadlines lie: a minute of ticks of one millisecond.
const SPAN_TICKS: u64 = 60_000;

const SIZES: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// A small generator of its own, so that runs are alike and the arithmetic costs next to nothing.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * below) >> 32).min(below - 1)
    }

    fn deadlines(&mut self, count: usize) -> Vec<Tick> {
        (0..count).map(|_| Tick::new(1 + self.next(SPAN_TICKS))).collect()
    }
}

fn random() -> Random {
    Random(0x9e37_79b9_7f4a_7c15)
}

/// An empty wheel of the default geometry with room for `capacity` timers.
fn empty(capacity: usize) -> Wheel<u64> {
    Wheel::with_capacity(Wheel::<u64>::default().geometry(), capacity)
}

fn filled(deadlines: &[Tick]) -> (Wheel<u64>, Vec<Key>) {
    let mut wheel = empty(deadlines.len());
    let keys = deadlines.iter().map(|at| wheel.insert(*at, at.get())).collect();
    (wheel, keys)
}

fn timed<R>(work: impl FnOnce() -> R) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

type Round = fn(&[Tick]) -> Duration;

/// Into an empty wheel whose slab was reserved; the lists of its buckets grow on the way.
fn insert(deadlines: &[Tick]) -> Duration {
    let mut wheel = empty(deadlines.len());
    timed(|| deadlines.iter().for_each(|at| _ = wheel.insert(*at, at.get())))
}

/// Into the memory that as many timers left, in the order in which they fired.
fn insert_recycled(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled(deadlines);
    wheel.advance(Tick::new(SPAN_TICKS), |_, _, _| {});
    timed(|| {
        for at in deadlines {
            wheel.insert(at.saturating_add(SPAN_TICKS), at.get());
        }
    })
}

/// A timer that is cancelled at once, beside those that are pending.
fn insert_cancel(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled(deadlines);
    timed(|| {
        for at in deadlines {
            let key = wheel.insert(*at, at.get());
            black_box(wheel.cancel(key));
        }
    })
}

/// Every pending timer, in an order unlike that of their deadlines.
fn cancel(deadlines: &[Tick]) -> Duration {
    let (mut wheel, keys) = filled(deadlines);
    timed(|| keys.iter().for_each(|key| _ = black_box(wheel.cancel(*key))))
}

/// Every pending timer in the order of insertion, to another deadline of the same minute.
fn reset(deadlines: &[Tick]) -> Duration {
    let (mut wheel, keys) = filled(deadlines);
    timed(|| {
        for (key, at) in keys.iter().zip(deadlines.iter().rev()) {
            wheel.reset(*key, *at);
        }
    })
}

/// Sixty thousand advances by one tick. With fewer timers than ticks most of them find nothing.
fn expire_by_tick(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled(deadlines);
    timed(|| {
        let mut sum = 0_u64;
        for now in 1..=SPAN_TICKS {
            wheel.advance(Tick::new(now), |_, _, payload| sum += payload);
        }
        assert!(wheel.is_empty());
        sum
    })
}

/// From one expiration to the next. The sparser the timers, the more they come down alone.
fn expire_by_next(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled(deadlines);
    timed(|| {
        let mut sum = 0_u64;
        while let Some(now) = wheel.next_expiration() {
            wheel.advance(now, |_, _, payload| sum += payload);
        }
        sum
    })
}

fn operations(criterion: &mut Criterion) {
    let operations: [(&str, Round); 7] = [
        ("insert", insert),
        ("insert_recycled", insert_recycled),
        ("insert_cancel", insert_cancel),
        ("cancel", cancel),
        ("reset", reset),
        ("expire_by_tick", expire_by_tick),
        ("expire_by_next", expire_by_next),
    ];
    for (name, round) in operations {
        let mut group = criterion.benchmark_group(name);
        for size in SIZES {
            let deadlines = random().deadlines(size);
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                bencher.iter_custom(|wanted| per_item(wanted, size as u64, || round(&deadlines)));
            });
        }
    }
}

criterion_group! {
    name = wheel;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .without_plots();
    targets = operations
}
criterion_main!(wheel);
