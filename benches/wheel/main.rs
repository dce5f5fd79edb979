//! The local wheel, operation by operation, with a sorted map of the standard library beside it:
//! nanoseconds per timer.
//!
//! Every round builds a wheel of the size in the name and times one operation on all of its
//! timers; what criterion calls an iteration is one timer. Deadlines are uniform over a minute
//! of milliseconds, in an order fixed by a seed.
//!
//! With `--features studies` there are more sizes, and the other classic design, the hashed wheel
//! (`benches/wheel/designs.rs`). `-- designs/short` at the end chooses a part.

mod designs;

use bench_support::suite;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use tickless::Tick;
use tickless::local::{Key, TimingWheel};

use bench_support::rounds::per_item;
use designs::{Design, Hierarchy, designs};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How far ahead deadlines lie: a minute of ticks of one millisecond.
const SPAN_TICKS: u64 = 60_000;

const SIZES: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The sizes of the suite.
const FEW_SIZES: [usize; 2] = [1_000, 100_000];

/// These sizes; without the large ones if nothing is measured (`cargo test --benches`), and only
/// those of the suite without the feature.
fn sizes(sizes: &[usize]) -> impl Iterator<Item = usize> {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let largest = if measures { usize::MAX } else { 10_000 };
    let is_study = cfg!(feature = "studies");
    let is_wanted = move |size: &usize| is_study || FEW_SIZES.contains(size);
    sizes.iter().copied().filter(move |size| *size <= largest).filter(is_wanted)
}

/// A generator with a fixed seed: runs are alike, and its arithmetic costs next to nothing.
fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(1)
}

fn deadlines(count: usize, span_ticks: u64) -> Vec<Tick> {
    let mut random = random();
    (0..count).map(|_| Tick::new(1 + random.u64(..span_ticks))).collect()
}

fn filled<D: Design>(deadlines: &[Tick]) -> (D::Wheel, Vec<Key>) {
    let mut wheel = D::empty(deadlines.len());
    let keys = deadlines.iter().map(|at| wheel.insert(*at, at.get())).collect();
    (wheel, keys)
}

/// The latest of all, at which nothing is pending any more.
fn last(deadlines: &[Tick]) -> Tick {
    deadlines.iter().copied().max().unwrap_or(Tick::ZERO)
}

/// How much of a processor the calling thread takes for `work`. The time on the wall would count
/// other processes in where there are any, and nothing here waits.
fn timed<R>(work: impl FnOnce() -> R) -> Duration {
    let start = processor_time();
    black_box(work());
    processor_time() - start
}

/// What the calling thread has taken of a processor so far.
#[cfg(unix)]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` that lives until the call returns.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(outcome, 0, "every thread has such a clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Without such a clock, the time on the wall.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

type Round = fn(&[Tick]) -> Duration;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Into an empty wheel whose memory was reserved, but never touched.
fn insert<D: Design>(deadlines: &[Tick]) -> Duration {
    let mut wheel = D::empty(deadlines.len());
    timed(|| deadlines.iter().for_each(|at| _ = wheel.insert(*at, at.get())))
}

/// Into the memory that as many timers left, in the order in which they fired.
fn insert_recycled<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled::<D>(deadlines);
    let last = last(deadlines);
    wheel.advance(last, |_, _, _| {});
    timed(|| {
        for at in deadlines {
            wheel.insert(at.saturating_add(last.get()), at.get());
        }
    })
}

/// A timer that is cancelled at once, beside those that are pending.
fn insert_cancel<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled::<D>(deadlines);
    timed(|| {
        for at in deadlines {
            let key = wheel.insert(*at, at.get());
            black_box(wheel.cancel(key));
        }
    })
}

/// Of as many timers as there are, the oldest is cancelled and a new one comes in its place, round
/// and round.
fn replace_oldest<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, mut keys) = filled::<D>(deadlines);
    timed(|| {
        for (oldest, at) in keys.iter_mut().zip(deadlines.iter().rev()) {
            black_box(wheel.cancel(*oldest));
            *oldest = wheel.insert(*at, at.get());
        }
    })
}

/// Every pending timer in the order of insertion, which is unlike that of their deadlines.
fn cancel<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, keys) = filled::<D>(deadlines);
    timed(|| keys.iter().for_each(|key| _ = black_box(wheel.cancel(*key))))
}

/// Every pending timer in any order.
fn cancel_random<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, mut keys) = filled::<D>(deadlines);
    let mut random = random();
    for end in (2..=keys.len()).rev() {
        keys.swap(end - 1, random.usize(..end));
    }
    timed(|| keys.iter().for_each(|key| _ = black_box(wheel.cancel(*key))))
}

/// Every pending timer in the order of insertion, to another deadline of the same minute.
fn reset<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, keys) = filled::<D>(deadlines);
    timed(|| {
        for (key, at) in keys.iter().zip(deadlines.iter().rev()) {
            wheel.reset(*key, *at);
        }
    })
}

/// Advances by one tick until all have fired. With fewer timers than ticks most of them find
/// nothing.
fn expire_by_tick<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled::<D>(deadlines);
    let last = last(deadlines).get();
    timed(|| {
        let mut sum = 0_u64;
        for now in 1..=last {
            wheel.advance(Tick::new(now), |_, _, payload| sum += payload);
        }
        assert!(wheel.is_empty());
        sum
    })
}

/// One advance at which all are due.
fn expire_by_leap<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled::<D>(deadlines);
    let last = last(deadlines);
    timed(|| {
        let mut sum = 0_u64;
        wheel.advance(last, |_, _, payload| sum += payload);
        assert!(wheel.is_empty());
        sum
    })
}

/// From one expiration to the next. The sparser the timers, the more they come down alone.
fn expire_by_next<D: Design>(deadlines: &[Tick]) -> Duration {
    let (mut wheel, _) = filled::<D>(deadlines);
    timed(|| {
        let mut sum = 0_u64;
        while let Some(now) = wheel.next_expiration() {
            wheel.advance(now, |_, _, payload| sum += payload);
        }
        sum
    })
}

/// What a wheel is measured against: timers in order of deadline, then of insertion.
type Map = BTreeMap<(Tick, usize), u64>;

fn filled_map(deadlines: &[Tick]) -> Map {
    let mut map = Map::new();
    // One by one: collecting would sort them first.
    for (number, at) in deadlines.iter().enumerate() {
        map.insert((*at, number), at.get());
    }
    map
}

fn map_insert(deadlines: &[Tick]) -> Duration {
    timed(|| filled_map(deadlines))
}

fn map_replace_oldest(deadlines: &[Tick]) -> Duration {
    let mut map = filled_map(deadlines);
    timed(|| {
        for (number, (oldest, at)) in deadlines.iter().zip(deadlines.iter().rev()).enumerate() {
            black_box(map.remove(&(*oldest, number)));
            map.insert((*at, deadlines.len() + number), at.get());
        }
    })
}

fn map_expire_by_tick(deadlines: &[Tick]) -> Duration {
    let mut map = filled_map(deadlines);
    timed(|| {
        let mut sum = 0_u64;
        for now in 1..=SPAN_TICKS {
            while let Some(first) = map.first_entry().filter(|first| first.key().0.get() <= now) {
                sum += first.remove();
            }
        }
        assert!(map.is_empty());
        sum
    })
}

/// One operation of a design, at each size.
fn measure(group: &mut Group<'_>, design: &str, round: Round, span_ticks: u64, all: &[usize]) {
    for size in sizes(all) {
        let deadlines = deadlines(size, span_ticks);
        group.bench_function(BenchmarkId::new(design, size), |bencher| {
            bencher.iter_custom(|wanted| per_item(wanted, size as u64, || round(&deadlines)));
        });
    }
}

/// What a user of a wheel does, how the wheel does it, and how the map does.
type Deed = (&'static str, Round, Option<Round>);

fn operations(criterion: &mut Criterion) {
    let deeds: [Deed; 8] = [
        ("wheel-insert-a-timer", insert::<Hierarchy>, Some(map_insert)),
        ("wheel-insert-into-used-memory", insert_recycled::<Hierarchy>, None),
        ("wheel-insert-and-cancel-at-once", insert_cancel::<Hierarchy>, None),
        ("wheel-replace-the-oldest", replace_oldest::<Hierarchy>, Some(map_replace_oldest)),
        ("wheel-cancel-a-timer", cancel::<Hierarchy>, None),
        ("wheel-reset-a-timer", reset::<Hierarchy>, None),
        ("wheel-fire-tick-by-tick", expire_by_tick::<Hierarchy>, Some(map_expire_by_tick)),
        ("wheel-fire-by-next-expiration", expire_by_next::<Hierarchy>, None),
    ];
    for (name, wheel, map) in deeds {
        let mut group = suite::group(criterion, name, 1);
        measure(&mut group, "wheel", wheel, SPAN_TICKS, &SIZES);
        if let Some(map) = map {
            // With ten million nobody would wait for it.
            measure(&mut group, "sorted-map", map, SPAN_TICKS, &SIZES[..4]);
        }
        group.finish();
    }
}

criterion_group! {
    name = wheel;
    config = suite::config();
    targets = operations, designs
}
criterion_main!(wheel);
