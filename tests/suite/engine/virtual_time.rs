//! Time that is moved by hand: to the next timer, and for several engines together.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::random::Random;
use tickless::{Builder, Clock, Engine, ManualClock, Task, TurnError};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What fired, and at which time.
type Log = Arc<Mutex<Vec<(Duration, u64)>>>;

fn logging(clock: &ManualClock, log: &Log, builder: Builder) -> Engine<u64> {
    let (clock, log) = (clock.clone(), log.clone());
    let builder = builder.manual_clock(&clock.clone());
    builder.build_each(move |what| log.lock().unwrap().push((clock.elapsed(), what))).unwrap()
}

#[test]
fn time_goes_to_the_next_timer_and_no_further() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let engine = logging(&clock, &log, Builder::new().shards(3));
    let start = engine.now();
    // Some of them far away, where they are filed in coarse buckets.
    let delays = [HOUR * 9, MS, MS, SECOND * 70, HOUR * 9 + MS, SECOND * 71, HOUR * 24 * 400];
    for (what, delay) in (0..).zip(delays) {
        engine.schedule_detached(delay, what).unwrap();
    }
    let times: BTreeSet<Duration> = delays.into_iter().collect();
    for time in times {
        assert_eq!(engine.advance_to_next(), Ok(Some(start + time)));
        assert_eq!(clock.elapsed(), time, "exactly there");
        assert_eq!(log.lock().unwrap().last().unwrap().0, time);
    }
    assert_eq!(log.lock().unwrap().len(), delays.len());
    assert_eq!(engine.advance_to_next(), Ok(None));
    assert_eq!(clock.elapsed(), HOUR * 24 * 400);
}

#[test]
fn time_stays_while_something_is_due_and_when_nothing_ever_will_be() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let engine = logging(&clock, &log, Builder::new().shards(2));
    assert_eq!(engine.advance_to_next(), Ok(None));
    engine.schedule_detached(SECOND, 1).unwrap();
    engine.schedule_detached(SECOND * 2, 2).unwrap();
    clock.advance(SECOND * 3);
    let now = engine.now();
    assert_eq!(engine.advance_to_next(), Ok(Some(now)));
    assert_eq!(log.lock().unwrap().len(), 2, "both were due");
    let never = engine.schedule(Duration::MAX, 3).unwrap();
    assert_eq!(engine.advance_to_next(), Ok(None));
    drop(never);
    assert_eq!(engine.now(), now);
}

#[test]
fn cancelled_and_moved_timers_do_not_attract_time() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let engine = logging(&clock, &log, Builder::new().shards(1));
    for n in 1..50_u32 {
        assert!(engine.schedule(MS * n * 97, u64::from(n)).unwrap().cancel());
    }
    assert_eq!(engine.advance_to_next(), Ok(None));
    assert_eq!(clock.elapsed(), Duration::ZERO);
    // The entry of a timer that was moved to a later time stays where it was filed.
    let mut moved = engine.schedule(SECOND, 7).unwrap();
    moved.reset(HOUR).unwrap();
    let later = engine.schedule(HOUR * 2, 8).unwrap();
    engine.advance_to_next().unwrap();
    assert_eq!(*log.lock().unwrap(), [(HOUR, 7)]);
    assert!(later.cancel());
    assert_eq!(engine.advance_to_next(), Ok(None));
    assert_eq!(clock.elapsed(), HOUR);
}

#[test]
fn tasks_that_schedule_make_the_next_timer() {
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).shards(1).build().unwrap();
    fn again(engine: Engine, left: u32) {
        if left > 0 {
            let same = engine.clone();
            engine.schedule_detached(SECOND, move || again(same, left - 1)).unwrap();
        }
    }
    again(engine.clone(), 5);
    let mut steps = 0;
    while engine.advance_to_next().unwrap().is_some() {
        steps += 1;
        assert_eq!(clock.elapsed(), SECOND * steps);
    }
    assert_eq!(steps, 5);
}

/// Steps from timer to timer, against a sorted set, over many geometries.
#[test]
fn each_step_is_to_the_earliest_of_those_that_wait() {
    let mut random = Random::new(7);
    for round in 0..30 {
        let (slots, reach) = [(64, 32), (4, 2), (8, 8), (2, 2), (512, 256)][round % 5];
        let clock = ManualClock::new();
        let log = Log::default();
        let builder = Builder::new().shards(1 + round % 3).slots(slots).reach(reach);
        let builder = if round % 2 == 0 { builder } else { builder.exact_below(0) };
        let engine = logging(&clock, &log, builder);
        let mut waiting = BTreeSet::new();
        let mut handles = Vec::new();
        for step in 0..200_u64 {
            let delay = MS * (random.below([7, 300, 50_000][round % 3]) as u32);
            match random.below(4) {
                0 | 1 => {
                    handles.push((step, engine.schedule(delay, step).unwrap()));
                    waiting.insert((clock.elapsed() + delay, step));
                }
                2 if !handles.is_empty() => {
                    let at = random.below(handles.len() as u64) as usize;
                    let (what, mut handle) = handles.swap_remove(at);
                    if random.below(2) == 0 {
                        let was_pending = handle.cancel();
                        let before = waiting.len();
                        waiting.retain(|&(_, other)| other != what);
                        assert_eq!(was_pending, waiting.len() < before);
                    } else if handle.reset(delay).is_ok() {
                        waiting.retain(|&(_, other)| other != what);
                        waiting.insert((clock.elapsed() + delay, what));
                        handles.push((what, handle));
                    }
                }
                _ => {
                    let expected = waiting.first().map(|&(due, _)| due);
                    let before = log.lock().unwrap().len();
                    let reached = engine.advance_to_next().unwrap();
                    assert_eq!(reached.is_some(), expected.is_some());
                    if let Some(due) = expected {
                        assert_eq!(clock.elapsed(), due, "round {round}, step {step}");
                        let mut fired = log.lock().unwrap()[before..].to_vec();
                        fired.sort();
                        let later = waiting.split_off(&(due + Duration::from_nanos(1), 0));
                        let due = std::mem::replace(&mut waiting, later);
                        assert_eq!(fired, due.into_iter().collect::<Vec<_>>());
                    }
                }
            }
        }
        engine.check().unwrap();
    }
}

#[test]
fn several_engines_go_together_in_the_order_of_time() {
    let (clock, log) = (ManualClock::new(), Log::default());
    let one = logging(&clock, &log, Builder::new().shards(2));
    let two = logging(&clock, &log, Builder::new().shards(1).tick(MS * 10));
    let closures = Engine::builder().manual_clock(&clock).shards(1).build().unwrap();
    one.schedule_detached(MS * 25, 1).unwrap();
    two.schedule_detached(MS * 25, 2).unwrap();
    one.schedule_detached(MS * 30, 3).unwrap();
    two.schedule_detached(MS * 41, 4).unwrap();
    // What one makes due at once on another fires at the same time.
    let onto = one.clone();
    closures
        .schedule_detached(MS * 50, move || {
            onto.schedule_detached(Duration::ZERO, 5).unwrap();
        })
        .unwrap();
    one.schedule_detached(MS * 61, 6).unwrap();
    let fired = clock.advance_engines(MS * 60, &[&two, &closures, &one]).unwrap();
    assert_eq!(fired, 6);
    let expected = [(25, 1), (30, 2), (30, 3), (50, 4), (50, 5)].map(|(ms, n)| (MS * ms, n));
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(clock.elapsed(), MS * 60);
    assert_eq!(one.len(), 1);
}

#[test]
fn what_cannot_be_moved_is_an_error_and_nothing_moves() {
    let (clock, other) = (ManualClock::new(), ManualClock::new());
    let driven = |clock: &ManualClock| Engine::builder().manual_clock(clock).build().unwrap();
    let (ours, theirs) = (driven(&clock), driven(&other));
    ours.schedule_detached(MS, || ()).unwrap();
    assert_eq!(clock.advance_engines(SECOND, &[&ours, &theirs]), Err(TurnError::OtherClock));
    let real = Builder::new().clock(Clock::system()).shards(1).build().unwrap();
    assert_eq!(clock.advance_engines(SECOND, &[&ours, &real]), Err(TurnError::NotManual));
    assert_eq!(real.advance_to_next(), Err(TurnError::NotManual));
    assert_eq!(clock.elapsed(), Duration::ZERO);
    assert_eq!(ours.len(), 1);
    assert_eq!(clock.advance_engines(SECOND, &[]), Ok(0));
    assert_eq!(clock.elapsed(), SECOND, "no engine is no obstacle");
    let stopped = driven(&clock);
    stopped.stop().unwrap();
    assert_eq!(clock.advance_engines(MS, &[&ours, &stopped]), Err(TurnError::Stopped));
    assert_eq!(stopped.advance_to_next(), Err(TurnError::Stopped));
    let inside = driven(&clock);
    let (same, seen) = (inside.clone(), Arc::new(Mutex::new(None)));
    let saw = seen.clone();
    let task = move || *saw.lock().unwrap() = Some(same.advance_to_next());
    inside.schedule_detached(MS, task).unwrap();
    assert!(inside.advance_to_next().unwrap().is_some());
    assert_eq!(*seen.lock().unwrap(), Some(Err(TurnError::InsideTask)));
}

#[test]
fn a_stop_on_the_way_ends_it() {
    let clock = ManualClock::new();
    let engine: Engine<Task> = Engine::builder().manual_clock(&clock).build().unwrap();
    let other = Engine::builder().manual_clock(&clock).build().unwrap();
    let stops = other.clone();
    engine.schedule_detached(SECOND, move || drop(stops.stop())).unwrap();
    other.schedule_detached(SECOND * 2, || panic!("it was stopped")).unwrap();
    assert_eq!(clock.advance_engines(HOUR, &[&engine, &other]), Err(TurnError::Stopped));
    assert_eq!(engine.advance_to_next(), Ok(None));
    let _: Instant = engine.now();
}
