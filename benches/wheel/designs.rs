//! The two classic designs beside each other: the hierarchy of rings, and one ring that timers go
//! round several times.
//!
//! The same bodies run on both, through `TimingWheel`. *Short* delays are within one round of the
//! smaller hashed wheel; *long* ones up to four thousand of its rounds, which are 32 of the larger
//! one's. What is counted in ticks (`idle_tick`) or calls (`next_expiration`) says so.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use tickless::Tick;
use tickless::local::{HashedWheel, TimingWheel, Wheel};

use crate::{
    Round, cancel, cancel_random, deadlines, expire_by_leap, expire_by_tick, insert,
    insert_recycled,
};
use crate::{filled, measure, sizes, suite, timed};

/// A design as it is measured.
pub(crate) trait Design {
    type Wheel: TimingWheel<u64>;

    const NAME: &'static str;

    /// An empty wheel with room for `capacity` timers.
    fn empty(capacity: usize) -> Self::Wheel;
}

/// A hierarchy of the default geometry.
pub(crate) struct Hierarchy;

/// One ring of so many slots.
struct Ring<const SLOTS: u32>;

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

const SHORT_TICKS: u64 = HashedWheel::<u64>::DEFAULT_SLOTS as u64;
const LONG_TICKS: u64 = 4096 * SHORT_TICKS;

/// Further ahead than a bench gets: for timers that are pending all the time.
const FAR: u64 = 1 << 50;

impl Design for Hierarchy {
    type Wheel = Wheel<u64>;

    const NAME: &'static str = "hierarchy";

    fn empty(capacity: usize) -> Wheel<u64> {
        Wheel::with_capacity(Wheel::<u64>::default().geometry(), capacity)
    }
}

impl<const SLOTS: u32> Design for Ring<SLOTS> {
    type Wheel = HashedWheel<u64>;

    const NAME: &'static str = match SLOTS {
        512 => "ring-512",
        65_536 => "ring-65536",
        _ => panic!("a ring without a name"),
    };

    fn empty(capacity: usize) -> HashedWheel<u64> {
        HashedWheel::with_capacity(SLOTS, capacity).expect("a valid number of slots")
    }
}

/// Every operation, on both designs, with short delays and long ones. This is a study: it takes
/// some minutes, and is left out of the suite.
pub(crate) fn designs(criterion: &mut Criterion) {
    if !cfg!(feature = "studies") {
        return;
    }
    compare::<Hierarchy>(criterion);
    compare::<Ring<512>>(criterion);
    compare::<Ring<65_536>>(criterion);
}

fn compare<D: Design>(criterion: &mut Criterion) {
    let operations: [(&str, Round); 6] = [
        ("insert", insert::<D>),
        ("insert-recycled", insert_recycled::<D>),
        ("cancel", cancel::<D>),
        ("cancel-random", cancel_random::<D>),
        ("expire-by-tick", expire_by_tick::<D>),
        ("expire-by-leap", expire_by_leap::<D>),
    ];
    for (delays, span_ticks) in [("short", SHORT_TICKS), ("long", LONG_TICKS)] {
        let name = |operation| format!("designs/{delays}/{operation}/{}", D::NAME);
        for (operation, round) in operations {
            let mut group = suite::group(criterion, name(operation), 1);
            measure(&mut group, "timers", round, span_ticks, &SIZES);
        }
        next_expiration::<D>(criterion, &name("next-expiration"), span_ticks);
    }
    idle_tick::<D>(criterion, &format!("designs/far/idle-tick/{}", D::NAME));
}

/// One more tick on which nothing is due, while so many timers lie far ahead: time per tick.
fn idle_tick<D: Design>(criterion: &mut Criterion, name: &str) {
    let mut group = suite::group(criterion, name, 1);
    for size in sizes(&SIZES) {
        let mut deadlines = deadlines(size, LONG_TICKS);
        deadlines.iter_mut().for_each(|at| *at = at.saturating_add(FAR));
        let (mut wheel, _) = filled::<D>(&deadlines);
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_custom(|wanted| {
                timed(|| {
                    for _ in 0..wanted {
                        let now = wheel.now().saturating_add(1);
                        wheel.advance(now, |_, _, _| unreachable!("nothing is due so soon"));
                    }
                })
            });
        });
    }
}

/// What there is to ask before going to sleep: time per call.
fn next_expiration<D: Design>(criterion: &mut Criterion, name: &str, span_ticks: u64) {
    let mut group = suite::group(criterion, name, 1);
    for size in sizes(&SIZES) {
        let (wheel, _) = filled::<D>(&deadlines(size, span_ticks));
        let ask = || black_box(black_box(&wheel).next_expiration());
        assert!(ask().is_some_and(|next| next > Tick::ZERO));
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter_custom(|wanted| timed(|| (0..wanted).for_each(|_| _ = ask())));
        });
    }
}
