//! Stats: every number, after a story of which each number is known.

use std::panic;
use std::sync::Arc;
use std::time::Duration;

use support::compiled;
use tickless::periodic::{Backoff, End, Heartbeat, Retry, Schedule};
use tickless::{Batch, Builder, Driver, Engine, Handle, ManualClock, State, Stats};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

/// A driven engine of one shard with ticks of 1 ms. A handler that takes a zero panics with it.
fn manual() -> (Engine<u64>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Builder::new().tick(MS).shards(1).exact_below(0).manual_clock(&clock);
    let take_all = |batch: Batch<'_, u64>| {
        for payload in batch {
            if payload == 0 {
                panic::resume_unwind(Box::new("planned"));
            }
        }
    };
    (builder.build_with_handler(take_all).unwrap(), clock)
}

/// All but the lateness, which has tests of its own.
fn counts(engine: &Engine<u64>) -> [(&'static str, u64); 11] {
    let Stats { scheduled, seated, cancelled, reset, fired, .. } = engine.stats();
    let Stats { returned, pending, cascaded, panicked, wake_ups, unended, .. } = engine.stats();
    [
        ("scheduled", scheduled),
        ("seated", seated),
        ("cancelled", cancelled),
        ("reset", reset),
        ("fired", fired),
        ("returned", returned),
        ("pending", pending),
        ("cascaded", cascaded),
        ("panicked", panicked),
        ("wake-ups", wake_ups),
        ("unended", unended),
    ]
}

/// Asserts which counts have moved since `before`, and by how much; the others have not.
fn assert_moved(
    engine: &Engine<u64>,
    before: &mut [(&'static str, u64); 11],
    expected: &[(&str, i64)],
) {
    let now = counts(engine);
    for ((name, now), (_, before)) in now.iter().zip(before.iter()) {
        let by = expected.iter().find(|(expected, _)| expected == name).map_or(0, |&(_, by)| by);
        assert_eq!(now.wrapping_sub(*before) as i64, by, "{name} after {expected:?}");
    }
    *before = now;
}

#[test]
fn each_operation_moves_its_own_counts_and_no_others() {
    let (engine, clock) = manual();
    let before = &mut counts(&engine);
    assert!(before.iter().all(|&(_, count)| count == 0));

    let handle = engine.schedule(MS * 5, 1).unwrap();
    assert_moved(&engine, before, &[("scheduled", 1), ("pending", 1)]);
    assert!(handle.cancel());
    assert_moved(&engine, before, &[("cancelled", 1), ("pending", -1)]);
    let mut handle = engine.schedule(MS * 5, 2).unwrap();
    assert_moved(&engine, before, &[("scheduled", 1), ("seated", 1), ("pending", 1)]);
    assert!(handle.reset(MS * 7).is_ok());
    assert_moved(&engine, before, &[("reset", 1)]);
    assert!(handle.reset(MS * 3).is_ok());
    assert_moved(&engine, before, &[("reset", 1)]);

    clock.advance(MS * 3);
    assert_eq!(engine.turn(0).unwrap().fired, 1);
    assert_moved(&engine, before, &[("fired", 1), ("pending", -1), ("unended", 1)]);
    assert!(handle.reset(MS).is_err() && !handle.cancel());
    assert_moved(&engine, before, &[("unended", -1)]);

    (0..4).for_each(|payload| engine.schedule_detached(MS * 100, payload).unwrap());
    // One takes the seat that the second reset left behind, in a bucket that opens early.
    assert_moved(&engine, before, &[("scheduled", 4), ("seated", 1), ("pending", 4)]);
    clock.advance(MS * 96);
    engine.turn(0).unwrap();
    assert_moved(&engine, before, &[("cascaded", 5)]);
    clock.advance(MS * 4);
    assert_eq!(engine.turn(0).unwrap().fired, 4);
    assert_moved(&engine, before, &[("fired", 4), ("panicked", 1), ("pending", -4)]);

    engine.schedule_detached(MS, 5).unwrap();
    assert_moved(&engine, before, &[("scheduled", 1), ("pending", 1)]);
    assert_eq!(engine.stop().unwrap(), [5]);
    assert_moved(&engine, before, &[("returned", 1), ("pending", -1)]);
    assert!(engine.schedule(MS, 6).is_err());
    assert_moved(&engine, before, &[]);
}

#[test]
fn lateness_is_the_time_from_the_tick_to_the_handover() {
    let (engine, clock) = manual();
    assert_eq!(engine.stats().lateness.count, 0);
    (1..=2).for_each(|payload| engine.schedule_detached(MS * 5, payload).unwrap());
    (1..=3).for_each(|payload| engine.schedule_detached(MS * 7, payload).unwrap());
    clock.advance(MS * 10);
    assert_eq!(engine.turn(0).unwrap().fired, 5);
    let lateness = engine.stats().lateness;
    assert_eq!((lateness.count, lateness.max), (5, MS * 5));
    assert!(lateness.p50 >= MS * 3 && lateness.p50 < MS * 33 / 10, "{lateness:?}");
    assert_eq!([lateness.p99, lateness.p999], [MS * 5; 2]);

    engine.schedule_detached(MS, 1).unwrap();
    clock.advance(MS);
    assert_eq!(engine.turn(0).unwrap().fired, 1);
    let later = engine.stats().lateness;
    assert_eq!((later.count, later.max), (6, MS * 5), "that one was not late at all");
}

/// A driven engine of closures, with one shard and ticks of 1 ms.
fn closures() -> Engine {
    Engine::builder().tick(MS).shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

/// What an engine has scheduled, cancelled, fired and returned, and what is pending. Asserts that
/// each timer that was scheduled has ended, or is pending.
fn account(engine: &Engine) -> [u64; 5] {
    let Stats { scheduled, cancelled, fired, returned, pending, .. } = engine.stats();
    assert_eq!(scheduled, cancelled + fired + returned + pending);
    [scheduled, cancelled, fired, returned, pending]
}

#[test]
fn a_heartbeat_is_one_timer_however_often_that_looks() {
    let engine = closures();
    let start = || Heartbeat::new(&engine, MS * 10, compiled::silent(|| ())).unwrap();
    let (fires, stopped, dropped, returned) = (start(), start(), start(), start());
    assert_eq!(account(&engine), [4, 0, 0, 0, 4]);
    for _ in 0..50 {
        engine.advance(MS * 7).unwrap();
        assert!([&fires, &stopped, &dropped, &returned].into_iter().all(Heartbeat::beat));
    }
    // Seats of cancelled timers make no difference.
    (0..20).for_each(|_| assert!(engine.schedule(MS * 10, || ()).unwrap().cancel()));
    assert_eq!(account(&engine), [24, 20, 0, 0, 4]);
    assert_eq!(engine.stats().lateness.count, 4 * 49, "each look was handed over");
    assert!(stopped.stop());
    drop(dropped);
    engine.advance(MS * 7).unwrap();
    assert!(returned.beat());
    engine.advance(MS * 4).unwrap();
    assert!(fires.has_fired());
    assert_eq!(account(&engine), [24, 22, 1, 0, 1]);
    // A heartbeat's task is the engine's own: a stop takes it out, and drops it.
    assert!(engine.stop().unwrap().is_empty());
    assert_eq!(account(&engine), [24, 22, 1, 1, 0]);
}

#[test]
fn each_run_of_a_periodic_and_each_attempt_of_a_retry_has_fired() {
    let engine = closures();
    let periodic = engine.every(MS * 10, compiled::task(|_| ())).unwrap();
    engine.advance(MS * 95).unwrap();
    assert_eq!((periodic.runs(), account(&engine)), (9, [10, 0, 9, 0, 1]));
    assert!(periodic.cancel());
    assert_eq!(account(&engine), [10, 1, 9, 0, 0]);
    let retry = Retry::new(Backoff::new(MS * 10)).attempts(3);
    let retrying = retry.run(&engine, |_| Err::<(), _>("no route"), drop).unwrap();
    engine.advance(MS * 1_000).unwrap();
    assert_eq!((retrying.end(), retrying.attempts()), (Some(End::Finished), 3));
    assert_eq!(account(&engine), [13, 1, 12, 0, 0]);
}

#[test]
fn a_periodic_whose_timer_comes_before_it_is_let_go_counts_each_run_once() {
    // The hook runs when the timer is on the engine, and `start` still holds the periodic.
    let turns: Arc<Mutex<Vec<Engine>>> = Arc::default();
    let planned = turns.clone();
    let hook = move |_| {
        let engine = planned.lock().unwrap().pop();
        engine.into_iter().for_each(|engine| _ = engine.turn(0));
    };
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.driver(Driver::Caller).on_earlier(hook).build().unwrap();
    engine.turn(0).unwrap();
    turns.lock().unwrap().extend([engine.clone(), engine.clone()]);
    let periodic = Schedule::fixed_delay(MS * 10).starting(Duration::ZERO);
    let periodic = periodic.start(&engine, compiled::task(|_| ())).unwrap();
    assert!(turns.lock().unwrap().is_empty());
    assert_eq!(periodic.runs(), 0, "it does not run inside `start`");
    assert_eq!(engine.stats().lateness.count, 2, "it has come twice");
    assert_eq!(account(&engine), [1, 0, 0, 0, 1]);
    engine.turn(0).unwrap();
    assert_eq!((periodic.runs(), account(&engine)), (1, [2, 0, 1, 0, 1]));
}

/// The definition of *in hand*, by all who look.
#[test]
fn what_is_due_and_was_not_handed_over_has_fired_for_its_handle_and_is_pending_for_the_engine() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let handles: Arc<Mutex<Vec<Option<Handle>>>> = Arc::default();
    let seen: Arc<Mutex<Option<[usize; 5]>>> = Arc::default();
    for own in 0..10 {
        let (inner, inside, saw) = (engine.clone(), handles.clone(), seen.clone());
        let task = move || {
            let mut handles = inside.lock().unwrap();
            if saw.lock().unwrap().is_some() {
                return;
            }
            handles[own] = None;
            let fired = handles.iter().flatten().filter(|it| it.state() == State::Fired).count();
            let (stats, shown) = (inner.stats(), inner.snapshot().iter().count());
            let cancelled = handles.drain(..).flatten().filter_map(|it| it.cancel().then_some(()));
            let counts = [fired, cancelled.count(), inner.len(), stats.fired as usize, shown];
            assert_eq!(stats.pending as usize, counts[2]);
            *saw.lock().unwrap() = Some(counts);
        };
        handles.lock().unwrap().push(Some(engine.schedule(MS, task).unwrap()));
    }
    engine.advance(MS).unwrap();
    // (They fire in any order; the first to run looks at all others.)
    assert_eq!(seen.lock().unwrap().take(), Some([9, 0, 9, 1, 0]));
    assert_eq!((engine.len(), engine.stats().fired), (0, 10));
}
