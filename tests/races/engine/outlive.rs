//! Outliving: engines that are dropped with timers pending, and handles that outlive them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::scaled;
use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::{Batch, Builder, Engine, Handle, ManualClock, State, StuckTask};

const HOUR: Duration = Duration::from_secs(3600);

fn run_all(batch: Batch<'_, Token>) {
    batch.for_each(|token| token.run());
}

fn threaded() -> Engine<Token> {
    Builder::new().shards(2).build_with_handler(run_all).unwrap()
}

fn manual() -> (Engine<Token>, ManualClock) {
    let clock = ManualClock::new();
    (Builder::new().shards(2).manual_clock(&clock).build_with_handler(run_all).unwrap(), clock)
}

#[test]
fn an_engine_that_is_dropped_drops_what_is_pending_once() {
    for engine in [threaded(), manual().0] {
        let fates = Fates::new(300);
        for number in 0..300 {
            let delay = HOUR * (number as u32 % 7);
            engine.schedule_detached(delay + HOUR, fates.token(number)).unwrap();
        }
        let clone = engine.clone();
        drop(engine);
        assert!((0..300).all(|number| fates.of(number) == (0, 0)), "a clone keeps it going");
        drop(clone);
        assert!((0..300).all(|number| fates.of(number) == (0, 1)));
    }
}

#[test]
fn an_engine_whose_last_clone_goes_inside_its_own_task_ends_without_it() {
    for _ in 0..scaled(20) {
        let fates = Fates::new(100);
        let (sender, receiver) = mpsc::channel::<()>();
        let engine = Engine::builder().shards(2).thread_name("orphan").build().unwrap();
        for number in 0..100 {
            // Two threads, so that both shards have some.
            let token = fates.token(number);
            let alive = sender.clone();
            let task = move || {
                drop(alive);
                token.run();
            };
            let engine = &engine;
            let schedule = || engine.schedule_detached(HOUR, task).unwrap();
            thread::scope(|scope| scope.spawn(schedule).join().unwrap());
        }
        let only = Arc::new(OnceLock::new());
        let inside = only.clone();
        let task = move || drop(Arc::into_inner(inside).and_then(OnceLock::into_inner));
        let (started, begun) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let (report, outcome) = mpsc::channel();
        let task = move || {
            started.send(()).unwrap();
            wait.recv_timeout(PATIENCE).unwrap();
            let outcome = catch_unwind(AssertUnwindSafe(task));
            report.send(outcome.is_ok()).unwrap();
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        begun.recv_timeout(PATIENCE).unwrap();
        only.set(engine).unwrap();
        drop(only);
        drop(sender);
        go_on.send(()).unwrap();
        assert_eq!(outcome.recv_timeout(PATIENCE), Ok(true), "and it does not panic");
        // The reapers drop every pending task, and with the last of them the channel closes.
        let closed = receiver.recv_timeout(PATIENCE);
        assert_eq!(closed, Err(mpsc::RecvTimeoutError::Disconnected));
        assert!((0..100).all(|number| fates.of(number).0 == 0), "none of them ran");
    }
}

// === handles that outlive their engine ===

#[test]
fn handles_outlive_a_stopped_engine_and_find_their_timers_stopped() {
    for engine in [threaded(), manual().0] {
        let fates = Fates::new(5);
        let schedule = |number| engine.schedule(HOUR, fates.token(number)).unwrap();
        let [mut later, mut earlier, cancelled, taken, dropped] = [0, 1, 2, 3, 4].map(schedule);
        assert!(later.deadline().is_some());
        assert_eq!(engine.stop().unwrap().len(), 5);
        assert_eq!(later.state(), State::Stopped);
        assert_eq!(later.deadline(), None);
        assert!(later.reset(HOUR * 2).is_err());
        assert!(earlier.reset(Duration::ZERO).is_err(), "it is not pending any more");
        assert!(earlier.reset(engine.now()).is_err());
        assert!(!cancelled.cancel());
        assert!(taken.take().is_none());
        drop(dropped);
        assert!((0..5).all(|number| fates.of(number) == (0, 1)));
    }
}

#[test]
fn handles_outlive_a_dropped_engine_on_whichever_thread_they_are() {
    for make in [threaded, || manual().0] {
        let fates = Fates::new(11);
        let engine = make();
        let schedule = |number| engine.schedule(HOUR, fates.token(number)).unwrap();
        let mut here: Vec<_> = (0..10).map(schedule).collect();
        let there = here.split_off(5);
        // A thread that keeps a part of the engine.
        let (user, of_user) = (engine.clone(), fates.clone());
        let (left, has_left) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let keeper = spawn(move || {
            user.schedule_detached(HOUR, of_user.token(10)).unwrap();
            drop(user);
            left.send(()).unwrap();
            let _ = goes_on.recv();
            assert_eq!(there[0].deadline(), None);
            use_all(there);
        });
        has_left.recv().unwrap();
        drop(engine);
        assert!((0..11).all(|number| fates.of(number) == (0, 1)));
        assert_eq!(here[0].deadline(), None);
        // A thread that has never seen the engine.
        let there = here.split_off(3);
        use_all(here);
        spawn(move || use_all(there)).join().unwrap();
        drop(go_on);
        keeper.join().unwrap();
        assert!((0..11).all(|number| fates.of(number) == (0, 1)));
    }
}

#[test]
fn the_callbacks_of_an_engine_go_with_its_last_clone_on_a_thread_that_has_used_it() {
    let (sender, stuck) = mpsc::channel();
    let on_stuck = move |task: &StuckTask| _ = sender.send(task.shard);
    let engine = Engine::builder().shards(1).on_stuck(on_stuck).build().unwrap();
    engine.schedule_detached(HOUR, || ()).unwrap();
    drop(engine);
    assert_eq!(stuck.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn handles_outlive_the_last_trace_of_their_engine() {
    for make in [threaded, || manual().0] {
        let fates = Fates::new(10);
        let of_thread = fates.clone();
        // A thread that used an engine keeps a part of it, until it ends.
        let user = spawn(move || {
            let engine = make();
            let schedule = |number| engine.schedule(HOUR, of_thread.token(number)).unwrap();
            (0..10).map(schedule).collect::<Vec<_>>()
        });
        let mut here = user.join().unwrap();
        assert!((0..10).all(|number| fates.of(number) == (0, 1)));
        assert_eq!(here[0].deadline(), None, "nobody knows the engine's clock any more");
        let there = here.split_off(5);
        use_all(here);
        spawn(move || use_all(there)).join().unwrap();
        assert!((0..10).all(|number| fates.of(number) == (0, 1)));
    }
}

/// Uses handles of an engine that is gone in every way there is.
fn use_all(handles: Vec<Handle<Token>>) {
    for (number, mut handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.state(), State::Stopped);
        assert!(handle.reset(HOUR * 2).is_err());
        assert!(handle.reset(Duration::ZERO).is_err());
        match number % 4 {
            0 => assert!(!handle.cancel()),
            1 => assert!(handle.take().is_none()),
            2 => drop(handle.cancel_on_drop()),
            _ => drop(handle),
        }
    }
}
