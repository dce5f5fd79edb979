//! Timers under keys: what each operation does, and what it answers.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::keyed_timers::by_hand;
use support::token::{Fates, Token};
use tickless::{Engine, ManualClock};
use tickless_keyed::{IfAbsentError, IfAbsentReason, KeyedTimers, ResetError, Scheduled};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// The task that runs a token.
fn run(token: Token) -> impl FnOnce() + Send + 'static {
    move || token.run()
}

#[test]
fn a_timer_runs_when_it_is_due_and_frees_its_key() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(1);
    assert_eq!(timers.schedule_keyed(7, 5 * MS, run(fates.token(0))).unwrap(), Scheduled::New);
    assert!(timers.contains_key(&7) && timers.len() == 1 && engine.len() == 1);
    engine.advance(4 * MS).unwrap();
    assert_eq!(fates.of(0), (0, 0));
    engine.advance(MS).unwrap();
    assert_eq!(fates.of(0), (1, 1));
    assert!(!timers.contains_key(&7) && timers.is_empty() && engine.is_empty());
    assert!(!timers.cancel(&7), "it has run");
}

#[test]
fn scheduling_again_replaces_what_waits_and_drops_its_task_at_once() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(3);
    assert_eq!(timers.schedule_keyed(7, 5 * MS, run(fates.token(0))).unwrap(), Scheduled::New);
    for number in [1, 2] {
        let delay = [0, 2, 9][number] * MS;
        let scheduled = timers.schedule_keyed(7, delay, run(fates.token(number))).unwrap();
        assert_eq!(scheduled, Scheduled::Replaced);
        assert_eq!(fates.of(number - 1), (0, 1), "dropped, and not run");
        assert_eq!((timers.len(), engine.len()), (1, 1));
    }
    engine.advance(8 * MS).unwrap();
    assert_eq!(fates.of(2), (0, 0));
    engine.advance(MS).unwrap();
    assert_eq!((fates.of(2), timers.len()), ((1, 1), 0));
    // What has run is not replaced.
    assert_eq!(timers.schedule_keyed(7, HOUR, || ()).unwrap(), Scheduled::New);
}

#[test]
fn scheduling_if_absent_gives_the_task_back_while_another_waits() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(2);
    timers.schedule_if_absent(7, 5 * MS, run(fates.token(0))).unwrap();
    let refused = timers.schedule_if_absent(7, MS, run(fates.token(1))).unwrap_err();
    assert_eq!(refused.reason(), IfAbsentReason::Occupied);
    assert!(format!("{refused:?}").contains("reason: Occupied"));
    assert_eq!(fates.of(1), (0, 0), "it is in the error");
    assert_eq!(engine.len(), 1);
    refused.into_payload().run();
    engine.advance(5 * MS).unwrap();
    assert_eq!((fates.of(0), fates.of(1)), ((1, 1), (1, 1)));
    timers.schedule_if_absent(7, MS, || ()).unwrap();
    let at = engine.now();
    assert_eq!(
        timers.schedule_if_absent(7, at, || ()).unwrap_err().reason(),
        IfAbsentReason::Occupied
    );
    timers.schedule_if_absent(8, at, || ()).unwrap();
    assert_eq!(engine.advance(Duration::ZERO).unwrap(), 1, "what is past runs at once");
}

#[test]
fn cancelling_twice_tells_the_second_caller_no() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(1);
    timers.schedule_keyed(7, 5 * MS, run(fates.token(0))).unwrap();
    assert!(timers.cancel(&7));
    assert_eq!((fates.of(0), timers.len(), engine.len()), ((0, 1), 0, 0));
    assert!(!timers.cancel(&7) && !timers.cancel(&8));
    engine.advance(HOUR).unwrap();
    assert_eq!(fates.of(0), (0, 1));
}

#[test]
fn taking_gives_the_task_back() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(1);
    timers.schedule_keyed(7, 5 * MS, run(fates.token(0))).unwrap();
    let task = timers.take(&7).unwrap();
    assert!(timers.take(&7).is_none() && timers.is_empty() && engine.is_empty());
    engine.advance(HOUR).unwrap();
    assert_eq!(fates.of(0), (0, 0));
    task.run();
    assert_eq!(fates.of(0), (1, 1));
}

#[test]
fn a_reset_moves_the_same_task_to_later_and_to_earlier() {
    let (timers, engine) = by_hand::<u32>();
    let fates = Fates::new(1);
    let start = engine.now();
    timers.schedule_keyed(7, 500 * MS, run(fates.token(0))).unwrap();
    // Ahead and back, far and near, in the same bucket and in others.
    for delay in [501, 5_000, 40, 39, 38, 1, 900_000, 70, 100, 20, 30, 10] {
        assert_eq!(timers.reset(&7, delay * MS), Ok(()));
        assert_eq!(timers.deadline(&7), Some(start + delay * MS));
        assert_eq!((timers.len(), engine.len()), (1, 1));
    }
    assert_eq!(timers.reset(&7, start + 12 * MS), Ok(()));
    assert_eq!(timers.reset(&8, MS), Err(ResetError::Absent));
    engine.advance(11 * MS).unwrap();
    assert_eq!(fates.of(0), (0, 0));
    engine.advance(MS).unwrap();
    assert_eq!((fates.of(0), timers.len()), ((1, 1), 0));
    assert_eq!(timers.reset(&7, MS), Err(ResetError::Absent), "it has run");
    engine.check().unwrap();
}

#[test]
fn of_two_tasks_of_one_tick_the_first_can_still_prevent_the_second() {
    type Prevent = fn(&KeyedTimers<u32>, u32);
    let ways: [Prevent; 4] = [
        |timers, other| assert!(timers.cancel(&other)),
        |timers, other| drop(timers.take(&other).unwrap()),
        |timers, other| {
            let scheduled = timers.schedule_keyed(other, HOUR, || ()).unwrap();
            assert_eq!(scheduled, Scheduled::Replaced);
        },
        |timers, other| assert_eq!(timers.reset(&other, HOUR), Ok(())),
    ];
    for prevent in ways {
        let (timers, engine) = by_hand::<u32>();
        let ran = Arc::new(AtomicU32::new(0));
        for key in [0, 1] {
            let (ran, timers_there) = (ran.clone(), timers.clone());
            let task = move || {
                assert!(timers_there.contains_key(&(1 - key)), "it waits until it begins");
                assert!(!timers_there.contains_key(&key));
                prevent(&timers_there, 1 - key);
                ran.fetch_add(1, Ordering::SeqCst);
            };
            timers.schedule_keyed(key, 5 * MS, task).unwrap();
        }
        engine.advance(10 * MS).unwrap();
        assert_eq!((ran.load(Ordering::SeqCst), engine.stats().panicked), (1, 0));
        timers.cancel_all();
        assert_eq!((timers.len(), engine.len()), (0, 0));
    }
}

#[test]
fn what_was_moved_while_it_was_about_to_run_runs_at_its_new_time() {
    // Both are in one batch; the first to run moves the other, which runs later, once.
    let (timers, engine) = by_hand::<u32>();
    let order = Arc::new(Mutex::new(Vec::new()));
    for key in [0, 1] {
        let (order, timers_there, clock) = (order.clone(), timers.clone(), engine.clone());
        let start = engine.now();
        let task = move || {
            let moved = timers_there.reset(&(1 - key), 3 * MS);
            assert!(matches!(moved, Ok(()) | Err(ResetError::Absent)));
            order.lock().unwrap().push(clock.now() - start);
        };
        timers.schedule_keyed(key, 5 * MS, task).unwrap();
    }
    engine.advance(HOUR).unwrap();
    assert_eq!(*order.lock().unwrap(), [5 * MS, 8 * MS]);
    assert_eq!((timers.len(), engine.len()), (0, 0));
}

#[test]
fn a_task_may_use_its_own_key() {
    let (timers, engine) = by_hand();
    let left = Arc::new(AtomicU32::new(3));
    fn beat(timers: &KeyedTimers<&'static str>, left: Arc<AtomicU32>) {
        let timers_there = timers.clone();
        let task = move || {
            let timers = &timers_there;
            assert!(!timers.contains_key("own") && !timers.cancel("own") && timers.is_empty());
            assert_eq!(timers.reset("own", HOUR), Err(ResetError::Absent));
            if left.fetch_sub(1, Ordering::SeqCst) > 1 {
                beat(timers, left);
            }
        };
        timers.schedule_if_absent("own", 5 * MS, task).unwrap();
    }
    beat(&timers, left.clone());
    engine.advance(14 * MS).unwrap();
    assert_eq!((left.load(Ordering::SeqCst), timers.len()), (1, 1));
    engine.advance(HOUR).unwrap();
    assert_eq!((left.load(Ordering::SeqCst), timers.len()), (0, 0));
    assert_eq!(engine.stats().panicked, 0);
}

#[test]
fn a_full_engine_leaves_everything_as_it_was() {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).max_pending(2);
    let engine = engine.shards(1).build().unwrap();
    let timers = KeyedTimers::<u32>::with_engine(&engine);
    let fates = Fates::new(3);
    timers.schedule_keyed(7, 500 * MS, run(fates.token(0))).unwrap();
    let other = engine.schedule(HOUR, || ()).unwrap();
    match timers.schedule_keyed(7, MS, run(fates.token(1))) {
        Err(error) if error.is_full() => error.into_payload().run(),
        other => panic!("{other:?}"),
    }
    match timers.schedule_if_absent(8, MS, run(fates.token(2))) {
        Err(error) if error.reason() == IfAbsentReason::Full => drop(error.into_payload()),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        timers.schedule_if_absent(7, MS, || ()).unwrap_err().reason(),
        IfAbsentReason::Occupied
    );
    assert_eq!(timers.reset(&7, MS), Err(ResetError::Full), "an earlier time takes two places");
    assert_eq!(timers.reset(&7, 600 * MS), Ok(()), "a later one does not");
    assert_eq!((fates.of(0), fates.of(1), fates.of(2)), ((0, 0), (1, 1), (0, 1)));
    assert_eq!((timers.len(), engine.len()), (1, 2));
    assert!(!timers.contains_key(&8) && other.cancel());
    assert_eq!(timers.schedule_keyed(7, MS, || ()).unwrap(), Scheduled::Replaced);
    assert_eq!((fates.of(0), engine.len()), ((0, 1), 1));
    engine.check().unwrap();
}

#[test]
fn what_waits_can_be_looked_at_and_cancelled_by_its_keys() {
    let (timers, engine) = by_hand::<u32>();
    let start = engine.now();
    for key in 0..100_u32 {
        timers.schedule_keyed(key, start + key * MS, || ()).unwrap();
        assert_eq!(timers.deadline(&key), Some(start + key * MS));
    }
    let keys = |timers: &KeyedTimers<u32>| {
        let mut keys = Vec::new();
        // What looks may use the timers.
        timers.for_each_key(|key| keys.extend(timers.contains_key(key).then_some(*key)));
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&timers), (0..100).collect::<Vec<_>>());
    assert_eq!(timers.retain(|key| key % 3 != 0), 34);
    assert_eq!(keys(&timers), (0..100).filter(|key| key % 3 != 0).collect::<Vec<_>>());
    assert_eq!((timers.len(), engine.len()), (66, 66));
    engine.advance(49 * MS).unwrap();
    assert_eq!((timers.len(), timers.cancel_all(), engine.len()), (33, 33, 0));
    assert_eq!((keys(&timers).len(), timers.cancel_all()), (0, 0));
    assert_eq!((timers.deadline(&98), timers.is_empty()), (None, true));
}

#[test]
fn a_delay_too_long_to_represent_never_ends() {
    let (timers, engine) = by_hand::<u32>();
    timers.schedule_keyed(7, Duration::MAX, || ()).unwrap();
    engine.advance(100_000 * HOUR).unwrap();
    assert_eq!((timers.deadline(&7), timers.len()), (None, 1));
    assert_eq!(timers.reset(&7, MS), Ok(()));
    engine.advance(MS).unwrap();
    assert!(timers.is_empty());
}

#[test]
fn timers_that_share_an_engine_do_not_share_their_keys() {
    let (one, engine) = by_hand::<u32>();
    let other = KeyedTimers::with_engine(&engine);
    one.schedule_keyed(7, MS, || ()).unwrap();
    other.schedule_if_absent(7, MS, || ()).unwrap();
    assert!(one.cancel(&7) && other.contains_key(&7));
    assert_eq!((engine.len(), one.len(), other.len()), (1, 0, 1));
    assert_eq!(one.clone().schedule_keyed(7, MS, || ()).unwrap(), Scheduled::New);
    assert!(one.contains_key(&7), "a clone is the same timers");
}

#[test]
fn timers_may_be_shared_and_their_errors_passed_on() {
    fn is_shared<T: Send + Sync + Clone + Debug>() {}
    is_shared::<KeyedTimers<String>>();
    fn is_error<T: Error + Send + Sync + 'static>() {}
    is_error::<IfAbsentError>();
    is_error::<ResetError>();
    assert_eq!(size_of::<KeyedTimers<String>>(), size_of::<usize>());
    let (timers, _engine) = by_hand::<u32>();
    assert_eq!(format!("{timers:?}"), "KeyedTimers { len: 0, .. }");
}
