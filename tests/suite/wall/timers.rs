//! Timers by a wall clock that is set by hand, forward and back; and by that of the system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tickless::Engine;
use tickless::wall::{RepeatError, WallTimer, WallTimers};

use super::rig::{HOUR, MINUTE, MS, NOTHING, Rig, next_after};
use support::mpsc;
use support::planned::panic_as_planned;

#[test]
fn what_is_due_runs_in_the_order_of_time_and_nothing_before() {
    let rig = Rig::new();
    for (what, minutes) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
        rig.at(MINUTE * minutes, what);
    }
    assert_eq!(rig.timers.next_deadline(), Some(rig.noon + MINUTE * 10));
    assert_eq!(rig.set(MINUTE * 10 - Duration::from_nanos(1)), NOTHING);
    assert_eq!(rig.set(MINUTE * 10), [2, 4]);
    assert_eq!(rig.set(HOUR), [3, 1]);
    assert!(rig.timers.is_empty());
    rig.at(Duration::ZERO, 5);
    assert_eq!(rig.run(), [5], "what has passed is due at once");
}

#[test]
fn timers_follow_a_clock_that_is_set_forward_and_back() {
    let rig = Rig::new();
    let one = rig.at(HOUR, 1);
    assert_eq!(rig.set(MINUTE * 59), NOTHING);
    assert_eq!(rig.set(MINUTE), NOTHING, "set back by 58 minutes");
    assert_eq!(rig.set(MINUTE * 59), NOTHING);
    rig.timers.set_now(rig.noon);
    rig.at(MINUTE * 58, 2);
    rig.at(MINUTE * 30, 3);
    assert_eq!(rig.set(MINUTE * 29), NOTHING, "a new timer waits for its time, too");
    assert_eq!(rig.set(MINUTE * 30), [3]);
    assert_eq!(one.deadline(), Some(rig.noon + HOUR));
    assert_eq!(rig.set(24 * HOUR), [2, 1], "set forward by a day");
}

#[test]
fn a_timer_can_be_cancelled_and_moved_until_its_task_begins() {
    let rig = Rig::new();
    let token = Arc::new(());
    let held = token.clone();
    let dropped = rig.timers.schedule(rig.noon + HOUR, move || drop(held)).unwrap();
    assert!(dropped.cancel());
    assert_eq!(Arc::strong_count(&token), 1, "its task was dropped");
    assert!(!dropped.cancel() && !dropped.reset(rig.noon) && dropped.is_over());
    let moved = rig.at(HOUR, 1);
    assert!(moved.reset(rig.noon + MINUTE));
    assert_eq!(rig.timers.next_deadline(), Some(rig.noon + MINUTE));
    assert!(moved.clone().reset(rig.noon + MINUTE * 2));
    assert_eq!((rig.set(MINUTE), rig.timers.len()), (vec![], 1));
    rig.timers.set_now(rig.noon + MINUTE * 2);
    assert!(!moved.is_over() && moved.deadline().is_none(), "the engine has it");
    assert!(moved.reset(rig.noon + MINUTE * 3), "and has not begun");
    assert_eq!((rig.run(), rig.set(MINUTE * 3)), (vec![], vec![1]));
    assert!(moved.is_over() && !moved.cancel());
}

#[test]
fn a_repeating_task_runs_at_its_times_and_skips_what_has_passed() {
    let rig = Rig::new();
    let timer = rig.every(MINUTE * 10);
    for minutes in 0..35_u64 {
        rig.timers.set_now(rig.noon + MINUTE * minutes as u32);
        rig.engine.advance(Duration::ZERO).unwrap();
    }
    assert_eq!(rig.run(), [10, 20, 30]);
    assert_eq!(rig.set(MINUTE * 75), [40], "50, 60 and 70 are skipped");
    assert_eq!(timer.deadline(), Some(rig.noon + MINUTE * 80));
    assert_eq!(rig.timers.len(), 1);
    assert!(timer.cancel());
    assert_eq!(rig.set(HOUR * 2), NOTHING);
}

#[test]
fn no_time_comes_twice_in_a_row_when_the_clock_is_set_back_in_a_run() {
    let rig = Rig::new();
    rig.every(MINUTE * 10);
    rig.timers.set_now(rig.noon + MINUTE * 10);
    // It was handed over; before it runs, the clock is set back.
    rig.timers.set_now(rig.noon + MINUTE);
    assert_eq!(rig.run(), [10]);
    assert_eq!(rig.set(MINUTE * 19), NOTHING, "not 10 again");
    assert_eq!(rig.set(MINUTE * 20), [20]);
}

#[test]
fn a_repeating_task_can_be_cancelled_in_its_run_and_can_end() {
    let rig = Rig::new();
    let own: Arc<Mutex<Option<WallTimer>>> = Arc::default();
    let (same, noon, log) = (own.clone(), rig.noon, rig.log.clone());
    let token = Arc::new(());
    let captured = token.clone();
    let task = move |_| {
        log.lock().unwrap().push(Arc::strong_count(&captured) as u32);
        let timer = same.lock().unwrap().take().unwrap();
        assert!(timer.cancel() && timer.is_over() && !timer.cancel());
        assert!(!timer.reset(noon));
    };
    *own.lock().unwrap() = Some(rig.timers.repeat(next_after(noon, MINUTE), task).unwrap());
    assert_eq!(rig.set(HOUR), [2]);
    assert_eq!((Arc::strong_count(&token), rig.timers.len()), (1, 0));
    let mut left = 3;
    let mut next = next_after(noon, MINUTE);
    let until_three = move |after| {
        left -= 1;
        next(after).filter(|_| left > 0)
    };
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let task = move |_| _ = count.fetch_add(1, Ordering::Relaxed);
    let timer = rig.timers.repeat(until_three, task).unwrap();
    (61..90).for_each(|minutes| drop(rig.set(MINUTE * minutes)));
    assert_eq!((runs.load(Ordering::Relaxed), timer.is_over()), (2, true));
    assert_eq!(Arc::strong_count(&runs), 1);
    let refused = rig.timers.repeat(|_| None, |_| ());
    assert_eq!(refused.err(), Some(RepeatError::NoRun));
}

#[test]
fn panics_of_a_task_are_the_engines_and_those_of_a_plan_end_it() {
    let rig = Rig::new();
    let mut runs = 0;
    let log = rig.log.clone();
    let task = move |_| {
        runs += 1;
        log.lock().unwrap().push(runs);
        if runs == 1 {
            panic_as_planned();
        }
    };
    let timer = rig.timers.repeat(next_after(rig.noon, MINUTE), task).unwrap();
    assert_eq!(rig.set(MINUTE), [1]);
    assert_eq!((rig.engine.stats().panicked, timer.is_over()), (1, false));
    assert_eq!(rig.set(MINUTE * 2), [2]);
    assert!(timer.cancel());
    let mut asked = 0;
    let (noon, token) = (rig.noon, Arc::new(()));
    let captured = token.clone();
    let next = move |_| {
        asked += 1;
        let _captured = &captured;
        if asked == 2 {
            panic_as_planned();
        }
        Some(noon + HOUR)
    };
    let timer = rig.timers.repeat(next, |_| ()).unwrap();
    rig.set(HOUR);
    assert_eq!((rig.engine.stats().panicked, timer.is_over()), (2, true));
    assert_eq!(Arc::strong_count(&token), 1);
    let first =
        catch_unwind(AssertUnwindSafe(|| rig.timers.repeat(|_| panic_as_planned(), |_| ())));
    assert!(first.is_err() && rig.timers.is_empty());
    struct Drops;
    impl Drop for Drops {
        fn drop(&mut self) {
            panic_as_planned();
        }
    }
    let bad = Drops;
    let timer = rig.timers.schedule(noon + 9 * HOUR, move || drop(bad)).unwrap();
    catch_unwind(AssertUnwindSafe(|| timer.cancel())).unwrap_err();
    assert!(timer.is_over() && rig.timers.is_empty());
}

#[test]
fn by_the_systems_clock_nothing_is_early() {
    let engine = Engine::new().unwrap();
    let timers = WallTimers::new(&engine).unwrap();
    let (sender, times) = mpsc::channel();
    let begin = SystemTime::now();
    // The later ones first, so that each is the next.
    for n in (0..20).rev() {
        let (due, sender) = (begin + MS * n, sender.clone());
        timers.schedule(due, move || sender.send((due, SystemTime::now())).unwrap()).unwrap();
    }
    for _ in 0..20 {
        let (due, ran) = times.recv().unwrap();
        assert!(ran >= due);
    }
    let every_ms = timers.repeat(next_after(begin, MS), move |due| {
        let _ = sender.send((due, SystemTime::now()));
    });
    let runs: Vec<_> = times.iter().take(10).collect();
    assert!(every_ms.unwrap().cancel());
    assert!(runs.iter().all(|&(due, ran)| ran >= due));
    assert!(runs.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order, and none twice");
}
