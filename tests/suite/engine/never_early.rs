//! Never early: a timer fires at the tick that its deadline is rounded up to, by a clock that is
//! set by hand. (`tests/races/engine/never_early.rs` has the system's clock.)

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickless::local::Geometry;
use tickless::{Batch, Builder, Engine, ManualClock};

const GEOMETRIES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (1000, 999)];

const TICK_NS: u64 = 7;

/// What fired: deadline and time, in nanoseconds by the clock.
type Log = Arc<Mutex<Vec<(u64, u64)>>>;

fn manual((slots, reach): (u32, u32), start_ns: u64) -> (Engine<u64>, ManualClock, Log) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_nanos(start_ns));
    let log = Log::default();
    let (handler_log, handler_clock) = (log.clone(), clock.clone());
    let handler = move |batch: Batch<'_, u64>| {
        let now_ns = handler_clock.elapsed().as_nanos() as u64;
        handler_log.lock().unwrap().extend(batch.map(|deadline_ns| (deadline_ns, now_ns)));
    };
    let builder = Builder::new().tick(Duration::from_nanos(TICK_NS)).slots(slots).reach(reach);
    let engine = builder.shards(1).manual_clock(&clock).build_with_handler(handler).unwrap();
    (engine, clock, log)
}

/// When a deadline's tick begins.
fn due_ns(deadline_ns: u64) -> u64 {
    deadline_ns.div_ceil(TICK_NS) * TICK_NS
}

/// Deadlines in nanoseconds at, around and between the edges of all levels, seen from `now_ns`;
/// those whose tick comes first go first.
fn edges((slots, reach): (u32, u32), now_ns: u64) -> Vec<u64> {
    let geometry = Geometry::new(slots, reach).unwrap();
    let now = now_ns / TICK_NS;
    let mut deadlines = vec![now_ns, now_ns + 1, now_ns + TICK_NS - 1];
    for level in 1..=geometry.levels() {
        let width = geometry.width(level);
        if width > 1 << 45 {
            break;
        }
        for buckets in [1, u64::from(reach) - 1, u64::from(reach)] {
            let at = now + width * buckets;
            for tick in [at - 1, at, at + 1, at / width * width, (at / width * width).max(1) - 1] {
                let begin_ns = tick * TICK_NS;
                deadlines.extend([begin_ns, begin_ns + 1].into_iter().filter(|&ns| ns >= now_ns));
            }
        }
    }
    deadlines.sort_unstable();
    deadlines
}

const STARTS_NS: [u64; 3] = [0, 5 * TICK_NS + 3, 123_456_789 * TICK_NS + 6];

#[test]
fn a_timer_fires_at_its_tick_and_not_a_nanosecond_earlier_whatever_its_level() {
    for geometry in GEOMETRIES {
        for start_ns in STARTS_NS {
            let (engine, clock, log) = manual(geometry, start_ns);
            let deadlines = edges(geometry, start_ns);
            for &deadline_ns in &deadlines {
                let delay = Duration::from_nanos(deadline_ns - start_ns);
                engine.schedule_detached(delay, deadline_ns).unwrap();
            }
            for chunk in deadlines.chunk_by(|&a, &b| due_ns(a) == due_ns(b)) {
                let due_ns = due_ns(chunk[0]);
                let to = |ns| Duration::from_nanos(ns) - clock.elapsed();
                if Duration::from_nanos(due_ns) > clock.elapsed() {
                    assert_eq!(engine.advance(to(due_ns - 1)), Ok(0), "{geometry:?} {due_ns}");
                }
                assert_eq!(engine.advance(to(due_ns)), Ok(chunk.len()), "{geometry:?} {due_ns}");
            }
            assert!(engine.is_empty());
            for &(deadline_ns, at_ns) in log.lock().unwrap().iter() {
                assert_eq!(at_ns, due_ns(deadline_ns));
            }
        }
    }
}

#[test]
fn one_turn_a_tick_before_fires_nothing_and_one_at_the_tick_fires() {
    for geometry in GEOMETRIES {
        let mut deadlines = edges(geometry, STARTS_NS[1]);
        deadlines.dedup();
        for deadline_ns in deadlines {
            let (engine, clock, log) = manual(geometry, STARTS_NS[1]);
            let delay = Duration::from_nanos(deadline_ns - STARTS_NS[1]);
            engine.schedule_detached(delay, deadline_ns).unwrap();
            let due = Duration::from_nanos(due_ns(deadline_ns));
            if let Some(wait) = (due - Duration::from_nanos(1)).checked_sub(clock.elapsed()) {
                clock.advance(wait);
                assert_eq!(engine.turn(0).unwrap().fired, 0, "{geometry:?} {deadline_ns}");
            }
            clock.advance(due.saturating_sub(clock.elapsed()));
            assert_eq!(engine.turn(0).unwrap().fired, 1, "{geometry:?} {deadline_ns}");
            assert_eq!(log.lock().unwrap()[0].0, deadline_ns);
        }
    }
}

#[test]
fn a_timer_in_the_seat_of_a_cancelled_one_fires_at_its_own_tick() {
    for geometry in GEOMETRIES {
        let (engine, clock, log) = manual(geometry, STARTS_NS[1]);
        let deadlines = edges(geometry, STARTS_NS[1]);
        let after = |deadline_ns| Duration::from_nanos(deadline_ns) - clock.elapsed();
        for pair in deadlines.windows(2) {
            let seat = engine.schedule(after(pair[0]), pair[0]).unwrap();
            assert!(seat.cancel());
            engine.schedule_detached(after(pair[1]), pair[1]).unwrap();
        }
        let seated = engine.stats().seated;
        assert_eq!(seated as usize, deadlines.len() - 1, "each one finds the seat before it");
        engine.advance(after(*deadlines.last().unwrap() + TICK_NS)).unwrap();
        let log = log.lock().unwrap();
        assert_eq!(log.len(), deadlines.len() - 1);
        for &(deadline_ns, at_ns) in log.iter() {
            assert_eq!(at_ns, due_ns(deadline_ns), "{geometry:?}");
        }
    }
}
