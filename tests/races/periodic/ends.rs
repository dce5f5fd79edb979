//! How what repeats ends: with its engine, without room, in panics; and that nothing is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use support::boxed::Boxed;
use support::compiled;
use support::mpsc;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::threads::spawn;
use tickless::periodic::{End, Run, Schedule, StartReason};
use tickless::{Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

fn manual() -> Engine {
    quietly();
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

/// What a task captured, to see when that is dropped.
fn token() -> (Arc<()>, impl Fn() -> bool) {
    let token = Arc::new(());
    let weak = Arc::downgrade(&token);
    (token, move || weak.strong_count() == 0)
}

/// Panics when it is dropped.
struct Brittle(Arc<AtomicU32>);

impl Drop for Brittle {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic_as_planned();
    }
}

#[test]
fn a_cancel_during_a_pause_frees_the_task_at_once_even_if_handles_are_kept() {
    let engine = manual();
    let (token, is_gone) = token();
    let periodic = engine.every(MS, compiled::task(move |_| drop(token.clone()))).unwrap();
    let other = periodic.clone();
    engine.advance(MS * 3).unwrap();
    assert!(!is_gone());
    let there = periodic.clone();
    assert!(spawn(move || there.cancel()).join().unwrap());
    assert!(is_gone() && engine.is_empty());
    assert_eq!((other.end(), other.runs()), (Some(End::Cancelled), 3));
}

#[test]
fn a_cancel_during_a_run_frees_the_task_when_the_run_has_ended() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let (token, is_gone) = token();
    let (say, running) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let task = compiled::task(move |_: &Run| {
        let _token = &token;
        say.send(()).unwrap();
        wait.recv_timeout(PATIENCE).unwrap();
    });
    let periodic = engine.every(MS, task).unwrap();
    running.recv_timeout(PATIENCE).unwrap();
    assert!(periodic.cancel() && !periodic.cancel() && !periodic.is_running());
    assert!(!is_gone() && periodic.runs() == 1, "the run goes through");
    go.send(()).unwrap();
    // The task's end of the channel goes with the task.
    assert!(running.recv_timeout(PATIENCE).is_err());
    assert!(engine.stop().unwrap().is_empty());
    assert!(is_gone() && periodic.runs() == 1);
}

#[test]
fn an_engine_that_stops_ends_it_and_drops_its_task() {
    let engine = manual();
    let (token, is_gone) = token();
    let periodic = engine.every(MS, compiled::task(move |_| drop(token.clone()))).unwrap();
    engine.advance(MS * 2).unwrap();
    assert!(engine.stop().unwrap().is_empty());
    assert_eq!((periodic.end(), periodic.runs(), is_gone()), (Some(End::Stopped), 2, true));
    assert!(!periodic.cancel());
}

#[test]
fn a_payload_that_stop_returned_may_be_cancelled_and_may_be_run_once_more() {
    for is_run in [true, false] {
        let builder = Builder::new().manual_clock(&ManualClock::new());
        let engine = builder.build_each(Boxed::run).unwrap();
        let (token, is_gone) = token();
        let (task, mut kept) = (compiled::task(move |_: &Run| drop(token.clone())), None);
        let keep = |periodic| kept = Some(periodic);
        Schedule::fixed_rate(MS).start_with(&engine, task, keep).unwrap();
        let periodic = kept.unwrap();
        let task = engine.stop().unwrap().pop().unwrap();
        assert_eq!((periodic.end(), is_gone()), (None, false));
        if is_run {
            spawn(move || task.run()).join().unwrap();
            assert_eq!((periodic.end(), periodic.runs()), (Some(End::Stopped), 1));
        } else {
            assert!(periodic.cancel() && is_gone());
            task.run();
            assert_eq!((periodic.end(), periodic.runs()), (Some(End::Cancelled), 0));
        }
        assert!(is_gone());
    }
}

#[test]
fn an_engine_that_is_dropped_ends_what_repeats_on_it() {
    for has_threads in [true, false] {
        let engine = if has_threads { Engine::new().unwrap() } else { manual() };
        let (token, is_gone) = token();
        let periodic =
            engine.every(Duration::from_secs(3600), compiled::task(move |_| drop(token.clone())));
        let periodic = periodic.unwrap();
        drop(engine);
        assert!(is_gone(), "it does not keep its engine alive");
        assert_eq!((periodic.end(), periodic.next_deadline()), (Some(End::Stopped), None));
        assert!(!periodic.cancel());
    }
}

#[test]
fn an_engine_that_its_own_periodic_keeps_ends_when_that_lets_go_of_it() {
    let engine = Engine::builder().shards(2).build().unwrap();
    let (token, is_gone) = token();
    let (say, said) = mpsc::channel();
    let (let_go, is_let_go) = mpsc::channel::<()>();
    let mut own = Some(engine.clone());
    let task = compiled::task(move |run: &Run| {
        let _token = &token;
        // From the first run on, its engine is nobody else's.
        is_let_go.recv().unwrap_err();
        say.send(run.number()).unwrap();
        if run.number() == 3 {
            drop(own.take());
        }
    });
    let periodic = engine.every(MS, task).unwrap();
    drop(engine);
    drop(let_go);
    assert_eq!(said.iter().collect::<Vec<_>>(), [1, 2, 3], "and then the task is dropped");
    while !is_gone() {
        thread::yield_now();
    }
    assert_eq!(periodic.end(), Some(End::Stopped));
}

#[test]
fn an_engine_that_is_stopped_during_a_run_ends_it_after_the_run() {
    for _ in 0..50 {
        let engine = Engine::builder().shards(1).build().unwrap();
        let (token, is_gone) = token();
        let (say, running) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let task = compiled::task(move |_: &Run| {
            let _token = &token;
            say.send(()).unwrap();
            let _ = wait.recv_timeout(PATIENCE);
        });
        let periodic = engine.every(MS, task).unwrap();
        running.recv_timeout(PATIENCE).unwrap();
        let stopper = engine.clone();
        let stopper = spawn(move || stopper.stop().unwrap().len());
        drop(go);
        assert!(stopper.join().unwrap() <= 1);
        assert_eq!(periodic.end(), Some(End::Stopped));
        assert!(is_gone());
    }
}

#[test]
fn an_engine_without_room_refuses_the_first_arming_and_gives_the_task_back() {
    let engine = Engine::builder().max_pending(1).manual_clock(&ManualClock::new());
    let engine = engine.build().unwrap();
    let periodic = engine.every(MS, compiled::task(|_| ())).unwrap();
    let precious = String::from("precious");
    let task = compiled::task(move |_: &Run| assert!(!precious.is_empty()));
    let error = engine.every(MS, task).unwrap_err();
    assert_eq!(error.reason(), StartReason::Full);
    assert!(periodic.cancel());
    let again = engine.every(MS, error.into_payload()).unwrap();
    engine.advance(MS * 5).unwrap();
    assert_eq!(again.runs(), 5, "it needs one place, time and again");
}

#[test]
fn one_that_was_accepted_goes_on_although_others_take_the_room() {
    let engine = Engine::builder().max_pending(1).manual_clock(&ManualClock::new());
    let engine = engine.build().unwrap();
    let inside = engine.clone();
    let task = compiled::task(move |run: &Run| {
        if run.number() == 2 {
            inside.schedule_detached(MS * 100, || ()).unwrap();
        }
    });
    let periodic = engine.every(MS, task).unwrap();
    engine.advance(MS * 10).unwrap();
    assert_eq!((periodic.end(), periodic.runs()), (None, 10));
    assert_eq!((engine.len(), engine.stats().panicked), (2, 0));
    assert!(engine.schedule(MS, || ()).unwrap_err().is_full());
    // What ends gives its room back.
    assert!(periodic.cancel());
    assert!(engine.schedule(MS, || ()).unwrap_err().is_full());
    engine.advance(MS * 100).unwrap();
    assert!(engine.schedule(MS, || ()).unwrap().cancel());
}

#[test]
fn a_run_that_panics_is_counted_and_the_next_comes_as_if_it_had_not() {
    let engine = manual();
    let task = |run: &Run| {
        if run.number() % 3 == 0 {
            panic_as_planned();
        }
    };
    let rate = engine.every(MS, compiled::task(task)).unwrap();
    let delay = Schedule::fixed_delay(MS * 2).start(&engine, compiled::task(task)).unwrap();
    engine.advance(MS * 12).unwrap();
    assert_eq!((rate.runs(), delay.runs(), engine.stats().panicked), (12, 6, 6));
    assert!(rate.cancel() && delay.cancel() && engine.is_empty());
}

#[test]
fn a_run_that_panics_after_it_was_cancelled_is_the_last() {
    let engine = manual();
    let (token, is_gone) = token();
    let task = compiled::task(move |run: &Run| {
        let _token = &token;
        assert!(run.cancel());
        panic_as_planned();
    });
    let periodic = engine.every(MS, task).unwrap();
    engine.advance(MS * 5).unwrap();
    assert_eq!((periodic.runs(), periodic.end()), (1, Some(End::Cancelled)));
    assert_eq!((engine.stats().panicked, engine.len(), is_gone()), (1, 0, true));
}

#[test]
fn a_schedule_that_panics_is_the_end_and_is_counted() {
    let engine = manual();
    let (token, is_gone) = token();
    let mut asked = 0;
    let schedule = Schedule::from_fn(move |last| {
        asked += 1;
        if asked == 3 {
            panic_as_planned();
        }
        Some(last + MS)
    });
    let periodic = schedule.start(&engine, compiled::task(move |_| drop(token.clone()))).unwrap();
    engine.advance(MS * 9).unwrap();
    assert_eq!((periodic.runs(), periodic.end()), (2, Some(End::Panicked)));
    assert_eq!((engine.stats().panicked, engine.len(), is_gone()), (1, 0, true));

    let schedule = Schedule::from_fn(|_| panic_as_planned());
    let start = || drop(schedule.start(&engine, compiled::task(|_| ())));
    assert!(catch_unwind(AssertUnwindSafe(start)).is_err(), "the first is asked for in `start`");
    assert!(engine.is_empty());
}

#[test]
fn a_task_whose_drop_panics_is_dropped_once_and_all_else_is_done() {
    let engine = manual();
    let drops = Arc::new(AtomicU32::new(0));
    let start = |cancels: bool| {
        let brittle = Brittle(drops.clone());
        let task = compiled::task(move |run: &Run| {
            let _brittle = &brittle;
            if cancels {
                run.cancel();
                panic_as_planned();
            }
        });
        engine.every(MS, task).unwrap()
    };
    // On the thread that cancels it, which gets the panic.
    let outside = start(false);
    assert!(catch_unwind(AssertUnwindSafe(|| outside.cancel())).is_err());
    assert_eq!((outside.end(), engine.len()), (Some(End::Cancelled), 0));
    // After a run that panics too: one panic goes on.
    let inside = start(true);
    engine.advance(MS).unwrap();
    assert_eq!((inside.end(), engine.len()), (Some(End::Cancelled), 0));
    assert_eq!(engine.stats().panicked, 1);
    // With the engine, which contains it.
    let last = start(false);
    drop(engine);
    assert_eq!((last.end(), drops.load(Ordering::SeqCst)), (Some(End::Stopped), 3));
}

#[test]
fn what_a_task_captured_may_cancel_it_when_it_is_dropped() {
    struct Canceller(Option<tickless::periodic::Periodic>, mpsc::Sender<bool>);
    impl Drop for Canceller {
        fn drop(&mut self) {
            let cancelled = self.0.take().is_some_and(|periodic| periodic.cancel());
            self.1.send(cancelled).unwrap();
        }
    }
    let engine = manual();
    let (say, said) = mpsc::channel();
    let (send, receive) = mpsc::channel();
    let mut own = Canceller(None, say);
    let task = compiled::task(move |_: &Run| own.0 = receive.try_recv().ok().or(own.0.take()));
    let periodic = engine.every(MS, task).unwrap();
    send.send(periodic.clone()).unwrap();
    engine.advance(MS).unwrap();
    assert!(periodic.cancel());
    assert_eq!(said.try_recv(), Ok(false), "it was cancelled by then");
}
