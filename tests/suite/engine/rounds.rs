//! Several rounds of the ring in one bucket: a reaper that is behind its producers by many rounds
//! finds them all when it opens one, and neither its armed heap nor its work grows with them.
//!
//! `TICKLESS_TEST_SCALE` multiplies what each thread does.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use support::random::Random;
use support::scaled;
use tickless::local::Geometry;
use tickless::{Batch, Builder, Clock, Engine, Handle, ManualClock, Tick};
use tickless_core::dispatch::InHand;
use tickless_core::doorbell::{Bell, Doorbell};
use tickless_core::memory::Shared;
use tickless_core::producer::Producer;
use tickless_core::reaper::{Observer, Reaper};
use tickless_core::shard::Shard;
use tickless_core::time::Scale;

/// Shapes of wheels: the smallest, one that is no power of two, the default number of slots and a
/// large one; each with a reach of all of them, as in the classic wheel, and below.
const SHAPES: [(u32, u32); 8] =
    [(2, 2), (3, 3), (3, 2), (64, 64), (64, 32), (64, 63), (1024, 1024), (1024, 512)];

/// A shard with a thread's producer, by hand.
struct Bench {
    shared: Shared<u64>,
    shard: Shard<u64>,
    producer: Producer<u64>,
}

impl Bench {
    fn new((slots, reach): (u32, u32)) -> Bench {
        // SAFETY: what is built on it keeps to it, and is closed before it goes.
        let shared = unsafe { Shared::new(0, 1, None) };
        let geometry = Geometry::new(slots, reach).unwrap();
        let shard = Shard::new(0, geometry, Doorbell::new(Bell::None), Tick::ZERO, &shared);
        let producer = Producer::new(&shared, 0);
        Bench { shared, shard, producer }
    }

    /// Schedules a timer by a producer's clock.
    fn schedule(&mut self, deadline: u64, now: u64) {
        let Bench { shared, shard, producer } = self;
        let (due, now) = (Tick::new(deadline), || Tick::new(now));
        let _ =
            producer.schedule::<false, false>(shared, shard, due, now, deadline, false).unwrap();
    }

    /// Runs a turn: the deadlines that fired, in order.
    fn turn(&self, now: u64) -> Vec<u64> {
        let fired = std::sync::Mutex::new(Vec::new());
        let reaper = Reaper {
            shard: &self.shard,
            shared: &self.shared,
            handler: &|batch: Batch<'_, u64>| fired.lock().unwrap().extend(batch),
            clock: &Clock::manual(&ManualClock::new()),
            scale: Scale::new(Duration::from_millis(1)).unwrap(),
            observer: &Observer::default(),
            stopping: &AtomicBool::new(false),
            watch: None,
            leads: false,
        };
        reaper.turn(&mut InHand::new(), Tick::new(now), usize::MAX).unwrap();
        fired.into_inner().unwrap()
    }

    /// How many openings are on the armed heap, of which none is there twice.
    fn openings(&self) -> usize {
        let owner = self.shard.owner().lock().unwrap();
        let all: Vec<_> =
            owner.heap().iter().map(|place| (place.level, place.slot, place.expiration)).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), distinct.len(), "an opening is on the heap more than once");
        all.len()
    }

    fn check(&self) {
        self.shard.check(&mut self.shard.owner().lock().unwrap(), self.shard.clock()).unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        self.shard.close(&mut self.shard.owner().lock().unwrap(), &self.shared);
        let _ = self.producer.clear(&self.shared);
    }
}

/// Producers file as time goes on, and the reaper does not come. When it comes, they have gone on:
/// half of what it finds in each bucket is due, in as many rounds, and half is not.
#[test]
fn an_opening_is_on_the_armed_heap_once_however_many_rounds_a_bucket_holds() {
    for shape in SHAPES {
        let mut bench = Bench::new(shape);
        let ticks = 2 * u64::from(shape.0).max(500);
        // Two timers of each tick, one tick with the next, so that the rounds of a slot mix.
        for now in 0..ticks {
            bench.schedule(now + 1, now);
            bench.schedule(now + u64::from(shape.1) - 1, now);
        }
        let mut fired = Vec::new();
        for now in [ticks / 2, ticks / 2 + 1, ticks / 2 + 7] {
            fired.extend(bench.turn(now));
            assert!(fired.is_sorted() && fired.last().is_some_and(|&last| last <= now));
            let openings = bench.openings();
            assert!(openings as u64 <= ticks, "{shape:?}: {openings} openings at {now}");
            bench.check();
        }
        fired.extend(bench.turn(ticks + u64::from(shape.1)));
        assert_eq!(fired.len() as u64, 2 * ticks, "{shape:?}");
        assert!(fired.is_sorted(), "{shape:?}");
        assert_eq!(bench.openings(), 0, "{shape:?}");
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
                thread::spawn(move || {
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
