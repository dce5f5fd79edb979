//! Reset: a timer that was moved fires at its new time and at no other, and once.
//! (`tests/races/engine/reset.rs` resets while the timer fires.)

use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::random::Random;
use support::scaled;
use tickless::local::Geometry;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, State};

const GEOMETRIES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (1000, 999)];

const TICK: Duration = Duration::from_millis(1);

/// What fired and when.
type Log = Arc<Mutex<Vec<(u64, Duration)>>>;

fn manual((slots, reach): (u32, u32)) -> (Engine<u64>, ManualClock, Log) {
    let clock = ManualClock::new();
    let log = Log::default();
    let (handler_log, handler_clock) = (log.clone(), clock.clone());
    let handler = move |batch: Batch<'_, u64>| {
        let now = handler_clock.elapsed();
        handler_log.lock().unwrap().extend(batch.map(|payload| (payload, now)));
    };
    let builder = Builder::new().tick(TICK).slots(slots).reach(reach).shards(1);
    (builder.manual_clock(&clock).build_with_handler(handler).unwrap(), clock, log)
}

/// A delay on each level, in ticks.
fn one_per_level((slots, reach): (u32, u32)) -> Vec<Duration> {
    let geometry = Geometry::new(slots, reach).unwrap();
    let widths = (1..=geometry.levels()).map(|level| geometry.width(level));
    let delays = widths.map(|width| width + width / 2).take_while(|&ticks| ticks < 1 << 24);
    delays.map(|ticks| TICK * ticks as u32).collect()
}

#[test]
fn a_reset_from_any_level_to_any_other_fires_at_the_new_time_alone() {
    for geometry in GEOMETRIES {
        let delays = one_per_level(geometry);
        for &from in &delays {
            for &to in &delays {
                let (engine, clock, log) = manual(geometry);
                // Not from the start of all buckets.
                engine.advance(TICK * 5).unwrap();
                let mut handle = engine.schedule(from, 1).unwrap();
                assert!(handle.reset(to).is_ok());
                assert_eq!(handle.deadline(), Some(engine.now() + to));
                engine.check().unwrap();
                assert_eq!(engine.len(), 1);
                assert_eq!(engine.advance(to - TICK), Ok(0), "{geometry:?} {from:?} {to:?}");
                assert_eq!(handle.state(), State::Pending);
                assert_eq!(engine.advance(TICK), Ok(1), "{geometry:?} {from:?} {to:?}");
                assert_eq!(handle.state(), State::Fired);
                assert_eq!(engine.advance(from + to), Ok(0), "it fires once");
                assert_eq!(*log.lock().unwrap(), [(1, TICK * 5 + to)]);
                assert!(clock.elapsed() > from + to && handle.reset(to).is_err());
            }
        }
    }
}

#[test]
fn the_last_of_many_resets_counts_while_time_goes_on() {
    for geometry in GEOMETRIES {
        let delays = one_per_level(geometry);
        let random = &mut Random::new(5);
        let (engine, clock, log) = manual(geometry);
        let delay = |random: &mut Random| {
            let longest = delays[random.below(delays.len() as u64) as usize];
            TICK * random.below(longest.as_millis() as u64 + 1) as u32 + TICK
        };
        let mut timers: Vec<(Handle<u64>, Duration)> = Vec::new();
        for number in 0..scaled(100) {
            let due = delay(random);
            timers.push((engine.schedule(due, number).unwrap(), clock.elapsed() + due));
        }
        for _ in 0..scaled(2000) {
            let number = random.below(scaled(100)) as usize;
            let due = delay(random);
            let (handle, deadline) = &mut timers[number];
            let is_pending = *deadline > clock.elapsed();
            assert_eq!(handle.reset(due).is_ok(), is_pending, "{geometry:?}");
            if is_pending {
                *deadline = clock.elapsed() + due;
            }
            if random.below(10) == 0 {
                engine.advance(TICK * random.below(50) as u32).unwrap();
                engine.check().unwrap();
            }
        }
        engine.advance(TICK * (1 << 26)).unwrap();
        let mut log = log.lock().unwrap().clone();
        log.sort_unstable();
        let expected = timers.iter().enumerate();
        let expected: Vec<_> = expected.map(|(n, (_, deadline))| (n as u64, *deadline)).collect();
        assert_eq!(log, expected, "{geometry:?}");
    }
}

#[test]
fn a_reset_to_an_earlier_time_gives_the_handle_a_new_entry_and_the_old_seat_to_the_next() {
    let (engine, _clock, log) = manual((64, 32));
    let mut handle = engine.schedule(TICK * 5000, 1).unwrap();
    assert!(handle.reset(TICK * 7).is_ok());
    engine.schedule_detached(TICK * 6000, 2).unwrap();
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.seated, stats.reset, stats.pending), (2, 1, 1, 2));
    assert_eq!(engine.advance(TICK * 10_000), Ok(2));
    assert_eq!(*log.lock().unwrap(), [(1, TICK * 7), (2, TICK * 6000)]);
}

#[test]
fn a_reset_to_the_tick_at_which_its_bucket_opens_stays_there_and_one_before_moves() {
    let (engine, _clock, log) = manual((64, 32));
    // So many others that no timer is filed for its own deadline alone.
    for _ in 0..128 {
        engine.schedule_detached(Duration::MAX, 0).unwrap();
    }
    // On level 3 a bucket holds 1024 ticks: this one opens at 4096.
    let mut stays = engine.schedule(TICK * 5000, 1).unwrap();
    assert!(stays.reset(TICK * 4096).is_ok());
    engine.schedule_detached(TICK * 6000, 2).unwrap();
    assert_eq!(engine.stats().seated, 0, "no seat was left behind");
    let mut moves = engine.schedule(TICK * 5000, 3).unwrap();
    assert!(moves.reset(TICK * 4095).is_ok());
    engine.schedule_detached(TICK * 6000, 4).unwrap();
    assert_eq!(engine.stats().seated, 1, "one was");
    assert_eq!(engine.advance(TICK * 10_000), Ok(4));
    let fired = log.lock().unwrap();
    assert_eq!(fired[..2], [(3, TICK * 4095), (1, TICK * 4096)]);
}

#[test]
fn a_timer_may_be_reset_to_never_and_back() {
    let (engine, _clock, log) = manual((64, 32));
    let mut handle = engine.schedule(TICK * 5, 1).unwrap();
    assert!(handle.reset(Duration::MAX).is_ok());
    assert_eq!(handle.deadline(), None);
    assert_eq!(engine.advance(TICK * 1_000_000), Ok(0));
    assert!(handle.reset(TICK).is_ok());
    assert_eq!(engine.advance(TICK), Ok(1));
    assert_eq!(*log.lock().unwrap(), [(1, TICK * 1_000_001)]);
}
