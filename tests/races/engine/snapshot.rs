//! Snapshots: what is pending, seen from any thread without holding anybody up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use support::random::Random;
use support::scaled;
use tickless::local::Geometry;
use tickless::{Batch, Builder, Engine, ManualClock, PendingTimer, Tick};

const GEOMETRIES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (1000, 999)];

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

fn drop_all(batch: Batch<'_, u64>) {
    batch.for_each(drop);
}

fn manual((slots, reach): (u32, u32), shards: usize) -> Engine<u64> {
    let builder = Builder::new().tick(MS).slots(slots).reach(reach).shards(shards).exact_below(0);
    builder.manual_clock(&ManualClock::new()).build_with_handler(drop_all).unwrap()
}

fn sorted(engine: &Engine<u64>) -> Vec<PendingTimer> {
    let mut timers: Vec<_> = engine.snapshot().iter().copied().collect();
    timers.sort_unstable();
    timers
}

#[test]
fn a_snapshot_shows_each_timer_with_its_deadline_level_and_shard() {
    for (slots, reach) in GEOMETRIES {
        let geometry = Geometry::new(slots, reach).unwrap();
        let engine = manual((slots, reach), 2);
        let zero = engine.now();
        let random = &mut Random::new(1);
        let mut expected = Vec::new();
        for n in 0..500 {
            let bits = random.below(30);
            let ticks = random.below(1 << bits);
            let shard = n as usize % 2;
            engine.bind_thread(shard).unwrap();
            engine.schedule_detached(MS * ticks as u32, n).unwrap();
            let level = geometry.place(Tick::new(ticks), Tick::ZERO).level;
            expected.push((Some(zero + MS * ticks as u32), level, shard));
        }
        expected.sort_unstable();
        let snapshot = engine.snapshot();
        assert_eq!((snapshot.len(), snapshot.is_empty()), (500, false));
        let found: Vec<_> = sorted(&engine)
            .iter()
            .map(|timer| (timer.deadline, timer.level, timer.shard))
            .collect();
        assert_eq!(found, expected, "{slots} {reach}");
        assert_eq!(snapshot.into_iter().count(), 500);
    }
}

#[test]
fn a_timer_is_seen_to_come_down_the_levels_and_go() {
    let engine = manual((3, 3), 1);
    engine.schedule_detached(MS * 26, 0).unwrap();
    let mut levels = Vec::new();
    while let [timer] = sorted(&engine)[..] {
        levels.push(timer.level);
        engine.advance(MS).unwrap();
    }
    assert_eq!(levels.len(), 26);
    assert!(levels.is_sorted_by(|a, b| a >= b), "{levels:?}");
    assert_eq!((levels.first(), levels.last()), (Some(&3), Some(&1)));
}

#[test]
fn what_is_cancelled_is_not_in_a_snapshot_and_what_never_fires_has_no_deadline() {
    let engine = manual((64, 32), 1);
    let cancelled = engine.schedule(HOUR, 1).unwrap();
    let never = engine.schedule(Duration::MAX, 2).unwrap();
    assert!(cancelled.cancel());
    let [timer] = sorted(&engine)[..] else { panic!("one is left") };
    assert_eq!(timer.deadline, None);
    assert!(never.cancel());
    assert!(engine.snapshot().is_empty());
}

/// Ends what others do when it goes, also by a failure.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What is pending throughout and is not moved meanwhile is in every snapshot; others that come
/// and go, in the same buckets and in the same memory, do not lead the reader astray.
#[test]
fn a_snapshot_taken_while_others_schedule_cancel_and_fire_has_what_stays() {
    let engine = Builder::new().shards(2).build_with_handler(drop_all).unwrap();
    let stays = scaled(1000) as usize;
    let zero = engine.now();
    for n in 0..stays {
        drop(engine.schedule(zero + HOUR * 10 + MS * n as u32, n as u64).unwrap());
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads = [0, 1].map(|seed| {
            let (engine, is_over) = (&engine, &is_over);
            scope.spawn(move || {
                let random = &mut Random::new(seed);
                while !is_over.load(Ordering::SeqCst) {
                    let far = HOUR * 10 + MS * random.below(1000) as u32;
                    let handle = engine.schedule(far, 0).unwrap();
                    engine.schedule_detached(Duration::from_nanos(random.below(99)), 0).unwrap();
                    match random.below(3) {
                        0 => assert!(handle.cancel()),
                        1 => drop(handle.take()),
                        _ => {
                            let mut handle = handle;
                            assert!(handle.reset(Duration::ZERO).is_ok());
                        }
                    }
                }
            })
        });
        let over = Over(&is_over);
        for _ in 0..scaled(50) {
            let snapshot = engine.snapshot();
            let mut seen = vec![0; stays];
            for timer in &snapshot {
                let after = timer.deadline.unwrap() - zero;
                // What is not far is a visitor, and counts as the first.
                let n = after.checked_sub(HOUR * 10).map_or(0, |rest| rest.as_millis() as usize);
                seen[n.min(stays - 1)] += 1;
            }
            // Each of those that stay has a tick of its own.
            let missing = seen.iter().skip(1).filter(|&&count| count == 0).count();
            assert_eq!(missing, 0, "of {} timers seen", snapshot.len());
        }
        drop(over);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let returned = engine.stop().unwrap();
    assert!(returned.len() >= stays);
    assert!(engine.snapshot().is_empty());
}

/// The depots of many shards keep what was cancelled in one. It lies before what is pending there.
/// (One thread, of many timers: ThreadSanitizer has nothing to see.)
#[cfg(not(tsan))]
#[test]
fn a_snapshot_finds_the_few_that_are_pending_behind_all_that_the_depots_keep() {
    // More than the steps that a look may make beyond those for what is counted.
    const SHARDS: usize = 96;
    const PENDING: u64 = 20;
    // A depot keeps 1024 at least, and the common one as many for each shard.
    const KEPT: u64 = 1024 * (SHARDS as u64 + 1);
    let engine = manual((64, 32), SHARDS);
    engine.bind_thread(0).unwrap();
    (0..PENDING).for_each(|n| engine.schedule_detached(HOUR, n).unwrap());
    let schedule = |n| engine.schedule(HOUR, n).unwrap();
    let cancelled: Vec<_> = (0..KEPT).map(schedule).collect();
    assert!(cancelled.into_iter().all(|timer| timer.cancel()));
    assert_eq!(engine.stats().dead, 0, "all are kept");
    assert_eq!(engine.snapshot().len() as u64, PENDING);
}
