//! Snapshots from another thread while the owner has its hands full: what is pending throughout is
//! shown, and once, wherever it is meanwhile. (`tests/suite/engine/scan.rs` looks between turns.)
//!
//! `TICKLESS_TEST_SCALE` multiplies how often it is looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::scaled;
use support::threads::spawn;
use tickless::{Batch, Builder, Engine, Handle, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// More than what a sweep is begun for.
const MANY: u64 = 5_000;

/// Takes snapshots until told to stop: each shows all timers of the far future, and once.
fn watch(engine: &Engine<u64>, far: Instant, lasting: usize, watched: &Watched) {
    while !watched.is_done.load(Ordering::Acquire) {
        watched.looks.fetch_add(1, Ordering::Relaxed);
        let snapshot = engine.snapshot();
        let shown = snapshot.iter().filter(|timer| timer.deadline >= Some(far)).count();
        assert_eq!(shown, lasting, "of those that last throughout");
    }
}

/// What a thread that takes snapshots and the others tell each other.
#[derive(Default)]
struct Watched {
    is_done: AtomicBool,
    looks: AtomicU64,
}

impl Watched {
    /// Waits until another look has begun, however seldom the system lets that thread run.
    fn is_looked_at<T>(&self, reader: &thread::JoinHandle<T>) {
        let before = self.looks.load(Ordering::Relaxed);
        while self.looks.load(Ordering::Relaxed) == before && !reader.is_finished() {
            thread::yield_now();
        }
    }
}

#[test]
fn what_lasts_is_shown_once_beside_sweeps_and_bounded_turns() {
    for (shape, at) in [((64, 32), 3_600_000), ((64, 64), 60), ((3, 3), 3_600)] {
        let clock = ManualClock::new();
        let builder = Builder::new().tick(MS).slots(shape.0).reach(shape.1).shards(1);
        let engine = builder
            .manual_clock(&clock)
            .build_typed(|batch: Batch<'_, u64>| batch.for_each(drop))
            .unwrap();
        // What lasts is in one bucket with what is cancelled.
        let far = engine.now() + MS * at;
        let lasting = 1_000;
        let schedule = |ms: u32| engine.schedule(MS * ms, u64::from(ms)).unwrap();
        let mut kept = Vec::new();
        let mut gone = Vec::new();
        for _ in 0..lasting {
            gone.push(schedule(at - 1));
            kept.push(schedule(at));
        }
        let watched = Arc::new(Watched::default());
        let (same, of_reader) = (engine.clone(), watched.clone());
        let reader = spawn(move || watch(&same, far, lasting, &of_reader));
        for _ in 0..scaled(20) {
            watched.is_looked_at(&reader);
            gone.extend((0..2 * MANY).map(|_| schedule(at - 1)));
            gone.drain(..).for_each(|timer| assert!(timer.cancel()));
            (0..300).for_each(|_| drop(schedule(0)));
            while engine.turn_at_most(0, 10).unwrap().more {}
        }
        watched.is_done.store(true, Ordering::Release);
        reader.join().unwrap();
        engine.check().unwrap();
        assert!(kept.into_iter().all(Handle::cancel));
    }
}

#[test]
fn what_lasts_is_shown_once_while_it_is_taken_out_of_its_bucket_with_another_round() {
    let clock = ManualClock::new();
    let builder = Builder::new().tick(MS).slots(64).reach(64).shards(1);
    let engine = builder
        .manual_clock(&clock)
        .build_typed(|batch: Batch<'_, u64>| batch.for_each(drop))
        .unwrap();
    for _ in 0..scaled(30) {
        let lasting = 500;
        let schedule = |ms: u32| engine.schedule(MS * ms, u64::from(ms)).unwrap();
        (0..lasting).for_each(|_| drop(schedule(1)));
        clock.advance(10 * MS);
        // A round later, in the slot of those.
        let far = engine.now() + 55 * MS;
        let kept: Vec<_> = (0..lasting).map(|_| schedule(55)).collect();
        let watched = Arc::new(Watched::default());
        let (same, of_reader) = (engine.clone(), watched.clone());
        let reader = spawn(move || watch(&same, far, lasting, &of_reader));
        let mut fired = 0;
        while fired < lasting {
            if fired % 150 == 0 {
                watched.is_looked_at(&reader);
            }
            fired += engine.turn_at_most(0, 3).unwrap().fired;
        }
        watched.is_done.store(true, Ordering::Release);
        reader.join().unwrap();
        engine.check().unwrap();
        assert!(kept.into_iter().all(Handle::cancel));
        while engine.turn(0).unwrap().more {}
    }
}
