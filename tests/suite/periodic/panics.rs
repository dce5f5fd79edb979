//! What repeats, where all that belongs to it panics, with values that panic when they are dropped:
//! the rest of the work is done, and one panic goes on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::boxed::Boxed;
use support::compiled;
use support::mpsc;
use support::planned::{Planned, panic_as_planned, quietly};
use support::threads::spawn;
use tickless::periodic::{Attempt, Backoff, DueRun, End, Periodic, Retry, Run, Schedule};
use tickless::{Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

/// Panics when it is dropped, and counts that.
struct Bomb(Arc<AtomicU32>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic_as_planned();
    }
}

fn by_hand() -> (Engine, Arc<AtomicU32>) {
    quietly();
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    (engine, Arc::default())
}

/// Runs `f`, which panics with something that is not a bomb.
fn panics<R>(f: impl FnOnce() -> R) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it did not panic") };
    assert!(panic.is::<Planned>());
}

#[test]
fn a_task_and_its_schedule_that_both_panic_when_they_go_are_one_panic() {
    for inside in [false, true] {
        let (engine, dropped) = by_hand();
        let [one, other] = [(); 2].map(|()| Bomb(dropped.clone()));
        let plan = move |last| {
            let _captured = &one;
            Some(last + MS)
        };
        let task = compiled::task(move |run: &Run| {
            let _captured = &other;
            assert!(!inside || run.cancel());
        });
        let periodic = Schedule::from_fn(plan).start(&engine, task).unwrap();
        if !inside {
            panics(|| periodic.cancel());
        }
        engine.advance(MS).unwrap();
        assert_eq!((periodic.end(), engine.len()), (Some(End::Cancelled), 0));
        assert_eq!(dropped.load(Ordering::SeqCst), 2);
        assert_eq!(engine.stats().panicked, u64::from(inside));
    }
}

#[test]
fn a_run_that_panics_with_a_bomb_and_an_end_that_panics_are_one_panic() {
    let (engine, dropped) = by_hand();
    let (thrown, captured) = (dropped.clone(), Bomb(dropped.clone()));
    let task = compiled::task(move |run: &Run| {
        let _captured = &captured;
        run.cancel();
        resume_unwind(Box::new(Bomb(thrown.clone())));
    });
    let periodic = Schedule::fixed_rate(MS).start(&engine, task).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!((periodic.end(), engine.stats().panicked), (Some(End::Cancelled), 1));
    assert_eq!(dropped.load(Ordering::SeqCst), 2, "what was captured, and what was thrown");
}

#[test]
fn a_run_and_a_schedule_that_panic_with_bombs_are_one_panic_and_the_end() {
    let (engine, dropped) = by_hand();
    let (by_run, by_plan) = (dropped.clone(), dropped.clone());
    let mut is_first = true;
    let plan = move |last| {
        if !std::mem::take(&mut is_first) {
            resume_unwind(Box::new(Bomb(by_plan.clone())));
        }
        Some(last + MS)
    };
    let task = compiled::task(move |_: &Run| resume_unwind(Box::new(Bomb(by_run.clone()))));
    let periodic = Schedule::from_fn(plan).start(&engine, task).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!((periodic.end(), engine.stats().panicked), (Some(End::Panicked), 1));
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    assert!(engine.is_empty());
}

#[test]
fn a_retry_whose_closures_both_panic_at_its_end_has_come_out_once() {
    let (engine, dropped) = by_hand();
    let (captured, told) = (Bomb(dropped.clone()), Arc::new(AtomicU32::new(0)));
    let attempt = move |_| {
        let _captured = &captured;
        Ok::<(), ()>(())
    };
    let count = told.clone();
    let done = move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        panic_as_planned();
    };
    let retrying = Retry::new(Backoff::new(MS)).run(&engine, attempt, done).unwrap();
    engine.advance(Duration::ZERO).unwrap();
    assert_eq!((retrying.end(), engine.stats().panicked), (Some(End::Finished), 1));
    assert_eq!((told.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (1, 1));
}

/// The attempt is the retry's last, and is dropped by a thread that unwinds.
#[test]
fn a_retry_that_ends_and_panics_while_a_thread_unwinds_swallows_its_panic() {
    let (engine, _) = by_hand();
    let (sender, attempts) = mpsc::channel::<Attempt<(), ()>>();
    let retry = Retry::new(Backoff::new(MS)).attempts(1);
    let begin = move |attempt| drop(sender.send(attempt));
    let retrying = retry.start(&engine, begin, |_| panic_as_planned()).unwrap();
    engine.advance(Duration::ZERO).unwrap();
    let attempt = attempts.recv().unwrap();
    let unwinds = spawn(move || {
        let _attempt = attempt;
        panic_as_planned();
    });
    assert!(unwinds.join().unwrap_err().is::<Planned>());
    assert_eq!(retrying.end(), Some(End::Finished));
}

/// In a payload of a periodic: its drop panics.
struct Fatal(Option<DueRun>);

impl Drop for Fatal {
    fn drop(&mut self) {
        if self.0.take().is_some() {
            panic_as_planned();
        }
    }
}

fn fatal() -> Engine<Boxed> {
    quietly();
    let builder = Builder::new().shards(1).max_pending(1).manual_clock(&ManualClock::new());
    let run = |mut fatal: Boxed| {
        fatal.get_mut::<Fatal>().0.take().into_iter().for_each(DueRun::run);
    };
    builder.build_each(run).unwrap()
}

#[test]
fn a_payload_whose_drop_panics_leaves_no_periodic_half_ended() {
    let (dropped, mut kept) = (Arc::new(AtomicU32::new(0)), None);
    let keep = |slot: &mut Option<Periodic>, periodic| *slot = Some(periodic);
    // It is cancelled.
    let (engine, bomb) = (fatal(), Bomb(dropped.clone()));
    let schedule = Schedule::fixed_rate(MS);
    let task = compiled::task(move |_: &Run| _ = &bomb);
    let start = || schedule.start_with(&engine, task, |periodic| keep(&mut kept, periodic));
    Boxed::with_conversion(|due| Boxed::new(Fatal(Some(due))), start).unwrap();
    let periodic = kept.take().unwrap();
    panics(|| periodic.cancel());
    assert_eq!(periodic.cancel_wait_within(Duration::ZERO), Ok(End::Cancelled));
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

/// Converts it into a payload, and panics from the second time on.
fn fragile(due: DueRun) -> Boxed {
    if MADE.fetch_add(1, Ordering::SeqCst) > 0 {
        panic_as_planned();
    }
    Boxed::new(due)
}

static MADE: AtomicU32 = AtomicU32::new(0);

#[test]
fn what_cannot_be_started_since_the_code_around_it_panics_is_over() {
    quietly();
    let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_each(Boxed::run).unwrap();
    let (dropped, mut kept) = (Arc::new(AtomicU32::new(0)), None);
    let (bomb, schedule) = (Bomb(dropped.clone()), || Schedule::fixed_rate(MS));
    let keep = |periodic: Periodic| {
        kept = Some(periodic);
        panic_as_planned();
    };
    panics(|| schedule().start_with(&engine, compiled::task(move |_| _ = &bomb), keep));
    let over = kept.take().unwrap().cancel_wait_within(Duration::ZERO);
    assert_eq!((over, dropped.load(Ordering::SeqCst)), (Ok(End::Panicked), 1));
    // And one that cannot go on, since the payload for its next run is dropped.
    let (bomb, keep) = (Bomb(dropped.clone()), |periodic| kept = Some(periodic));
    Boxed::with_conversion(fragile, || {
        schedule().start_with(&engine, compiled::task(move |_| _ = &bomb), keep).unwrap();
        engine.advance(MS).unwrap();
    });
    let over = kept.unwrap().cancel_wait_within(Duration::ZERO);
    assert_eq!((over, dropped.load(Ordering::SeqCst)), (Ok(End::Stopped), 2));
    assert_eq!((engine.len(), engine.stats().panicked), (0, 1));
}
