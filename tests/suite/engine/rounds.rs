//! Several rounds of the ring in one bucket: a reaper that is behind its producers by many rounds
//! finds them all when it opens one, and neither its agenda nor its work grows with them.
//!
//! `TICKLESS_TEST_SCALE` multiplies what each thread does.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use support::random::Random;
use support::scaled;
use support::threads::spawn;
use tickless::local::Geometry;
use tickless::{Batch, Builder, Engine, Handle, Tick};
use tickless_core::bench::Bench;
use tickless_core::doorbell::Bell;
use tickless_core::memory::Shared;

/// Shapes of wheels: the smallest, one that is no power of two, the default number of slots and a
/// large one; each with a reach of all of them, as in the classic wheel, and below.
const SHAPES: [(u32, u32); 8] =
    [(2, 2), (3, 3), (3, 2), (64, 64), (64, 32), (64, 63), (1024, 1024), (1024, 512)];

/// A shard with a thread's producer, by hand.
type Shard = Bench<u64>;

fn bench((slots, reach): (u32, u32)) -> Shard {
    // SAFETY: what is built on it keeps to it; the bench closes its shard.
    let shared = unsafe { Shared::new(0, 1, None) };
    let geometry = Geometry::new(slots, reach).unwrap();
    Bench::new(shared, geometry, Bell::None, Tick::ZERO)
}

/// Runs a turn: the deadlines that fired, in order.
fn turn(bench: &Shard, now: u64) -> Vec<u64> {
    bench.turn(Tick::new(now), usize::MAX).1
}

/// How many openings are on the agenda, of which none is there twice.
fn openings(bench: &Shard) -> usize {
    let owner = bench.shard.owner().lock().unwrap();
    let all: Vec<_> =
        owner.armed().map(|place| (place.level, place.slot, place.expiration)).collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(all.len(), distinct.len(), "an opening is on the heap more than once");
    all.len()
}

/// Producers file as time goes on, and the reaper does not come. When it comes, they have gone on:
/// half of what it finds in each bucket is due, in as many rounds, and half is not.
#[test]
fn an_opening_is_on_the_armed_heap_once_however_many_rounds_a_bucket_holds() {
    for shape in SHAPES {
        let mut bench = bench(shape);
        let ticks = 2 * u64::from(shape.0).max(500);
        // Two timers of each tick, one tick with the next, so that the rounds of a slot mix.
        for now in 0..ticks {
            bench.schedule([now + 1, now], now + 1, false);
            let later = now + u64::from(shape.1) - 1;
            bench.schedule([later, now], later, false);
        }
        let mut fired = Vec::new();
        for now in [ticks / 2, ticks / 2 + 1, ticks / 2 + 7] {
            fired.extend(turn(&bench, now));
            assert!(fired.is_sorted() && fired.last().is_some_and(|&last| last <= now));
            let openings = openings(&bench);
            assert!(openings as u64 <= ticks, "{shape:?}: {openings} openings at {now}");
            bench.check(bench.shard.clock());
        }
        fired.extend(turn(&bench, ticks + u64::from(shape.1)));
        assert_eq!(fired.len() as u64, 2 * ticks, "{shape:?}");
        assert!(fired.is_sorted(), "{shape:?}");
        assert_eq!(openings(&bench), 0, "{shape:?}");
    }
}

/// What a thread of a crowd does: each call at random, the delays too.
fn live(engine: &Engine<u64>, seed: u64, calls: u64) {
    let random = &mut Random::new(seed);
    let mut timers: Vec<Handle<u64>> = Vec::new();
    for call in 0..calls {
        let magnitude = 10 + random.below(14);
        let delay = Duration::from_nanos(random.below(1 << magnitude));
        match random.below(6) {
            0..3 => timers.push(engine.schedule(delay, call).unwrap()),
            _ if timers.is_empty() => {}
            kind => {
                let mut timer = timers.swap_remove(random.below(timers.len() as u64) as usize);
                match (kind, random.below(3)) {
                    (3, _) => _ = timer.cancel(),
                    (4, 0) => _ = timer.take(),
                    (4, _) => drop(timer),
                    _ => {
                        if timer.reset(delay).is_ok() {
                            timers.push(timer);
                        }
                    }
                }
            }
        }
        if timers.len() > 64 {
            timers.truncate(32);
        }
    }
}

/// A tick of a microsecond is shorter than a turn: the reapers are behind all the time, and the
/// producers file rounds ahead of them.
#[test]
fn a_crowd_on_the_smallest_wheel_with_the_shortest_ticks_is_served_and_stopped() {
    for (shape, shards) in [((2, 2), 5), ((3, 3), 2), ((64, 64), 1)] {
        let fired = Arc::new(AtomicU64::new(0));
        let counted = fired.clone();
        let engine = Builder::new()
            .tick(Duration::from_micros(1))
            .slots(shape.0)
            .reach(shape.1)
            .shards(shards)
            .build_typed(move |batch: Batch<'_, u64>| {
                counted.fetch_add(batch.count() as u64, Ordering::Relaxed);
            })
            .unwrap();
        let begin = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let (engine, begin) = (engine.clone(), begin.clone());
                spawn(move || {
                    begin.wait();
                    live(&engine, seed, scaled(20_000));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let returned = engine.stop().unwrap().len() as u64;
        let stats = engine.stats();
        assert_eq!(stats.fired, fired.load(Ordering::Relaxed));
        assert_eq!(stats.scheduled, stats.fired + stats.cancelled + returned, "{shape:?}");
    }
}
