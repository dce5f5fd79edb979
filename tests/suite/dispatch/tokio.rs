//! A tokio runtime: what is due runs there, and what it does not run is dropped and counted.

use futures_util::FutureExt;
use support::awaited::wait_for_a_slow_task;
use support::mpsc;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::token::{Fates, Token};
use tickless::dispatch::{Monitor, OnTokio, RuntimeStats};
use tickless::{Builder, Engine};
use tokio::runtime::{self, Handle, Runtime};

use super::runtimes::{MS, assert_a_task_may_stop, assert_waits_for_no_task, by_hand};
use crate::on_runtime::Runs;

fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
}

/// An engine whose closures run on the runtime, driven by hand.
fn closures(dispatcher: OnTokio) -> (Engine, Monitor<RuntimeStats>) {
    let monitor = dispatcher.monitor();
    (by_hand(dispatcher), monitor)
}

/// Waits until nothing of what was spawned is left.
fn settle(monitor: &Monitor<RuntimeStats>) -> (u64, u64, u64) {
    loop {
        let RuntimeStats { spawned, finished, panicked, dropped, .. } = monitor.stats();
        if finished + panicked + dropped == spawned {
            return (finished, panicked, dropped);
        }
        std::thread::yield_now();
    }
}

#[test]
fn closures_run_inside_the_runtime_whichever_way_they_are_spawned() {
    for make in [OnTokio::spawn, OnTokio::spawn_blocking] {
        let runtime = runtime();
        let (engine, monitor) = closures(make(runtime.handle().clone()));
        let (sender, receiver) = mpsc::channel();
        for n in 0..50 {
            let sender = sender.clone();
            let task = move || sender.send((n, Handle::current().id())).unwrap();
            engine.schedule_detached(MS, task).unwrap();
        }
        assert_eq!(engine.advance(MS), Ok(50));
        let id = runtime.handle().id();
        let mut all: Vec<_> = (0..50).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
        all.sort_unstable_by_key(|(n, _)| *n);
        assert_eq!(all, (0..50).map(|n| (n, id)).collect::<Vec<_>>());
        assert_eq!((settle(&monitor), engine.stats().panicked), ((50, 0, 0), 0));
    }
}

#[test]
fn a_slow_task_delays_no_timer_and_no_stop() {
    for make in [OnTokio::spawn, OnTokio::spawn_blocking] {
        let runtime = runtime();
        let dispatcher = make(runtime.handle().clone());
        let monitor = dispatcher.monitor();
        assert_waits_for_no_task(dispatcher);
        assert_eq!(settle(&monitor), (101, 0, 0));
    }
}

#[test]
fn payloads_become_futures_that_may_wait_for_each_other() {
    let runtime = runtime();
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let work = move |n: u64| {
        let sender = sender.clone();
        // All but one wait for room here.
        async move { sender.send(n).await.unwrap() }.boxed()
    };
    let dispatcher = OnTokio::spawn_with(runtime.handle().clone(), work);
    let monitor = dispatcher.monitor();
    let engine = by_hand(dispatcher);
    for n in 0..30 {
        engine.schedule_detached(MS, n).unwrap();
    }
    assert_eq!(engine.advance(MS), Ok(30));
    let mut all = Vec::new();
    while all.len() < 30 {
        all.push(runtime.run(receiver.recv()).unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..30).collect::<Vec<_>>());
    assert_eq!(settle(&monitor), (30, 0, 0));
    // The last sender is the handler's: it goes when the engine has stopped.
    engine.stop().unwrap();
    assert_eq!(runtime.run(receiver.recv()), None);
}

#[test]
fn panics_are_counted_and_go_no_further() {
    quietly();
    let runtime = runtime();
    let on = || runtime.handle().clone();
    let work = |n: u64| {
        if n % 4 == 0 {
            panic_as_planned();
        }
        async move {
            if n % 4 == 1 {
                panic_as_planned();
            }
        }
        .boxed()
    };
    let futures = OnTokio::spawn_with(on(), work);
    let blocking = OnTokio::spawn_blocking_with(on(), |n: u64| {
        if n < 20 {
            panic_as_planned();
        }
    });
    for dispatcher in [futures, blocking] {
        let monitor = dispatcher.monitor();
        let engine = by_hand(dispatcher);
        for n in 0..40 {
            engine.schedule_detached(MS, n).unwrap();
        }
        assert_eq!(engine.advance(MS), Ok(40));
        assert_eq!((settle(&monitor), engine.stats().panicked), ((20, 20, 0), 0));
    }
}

#[test]
fn what_a_runtime_does_not_run_before_it_ends_is_dropped_and_counted() {
    let fates = Fates::new(20);
    // A runtime of this thread's: it runs nothing unless this thread has it do so.
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    let work = |token: Token| async move { token.run() }.boxed();
    let dispatcher = OnTokio::spawn_with(runtime.handle().clone(), work);
    let monitor = dispatcher.monitor();
    let engine = by_hand(dispatcher);
    for number in 0..20 {
        let delay = MS * (1 + number as u32);
        engine.schedule_detached(delay, fates.token(number)).unwrap();
    }
    assert_eq!(engine.advance(MS * 10), Ok(10));
    assert_eq!(monitor.stats().spawned, 10);
    drop(runtime);
    assert_eq!(settle(&monitor), (0, 0, 10), "what it had");
    assert_eq!(engine.advance(MS * 10), Ok(10));
    assert_eq!(settle(&monitor), (0, 0, 20), "and what came after");
    assert!((0..20).all(|number| fates.of(number) == (0, 1)));
    assert_eq!(engine.stats().panicked, 0, "the reaper has seen none of it");
}

#[test]
fn what_a_runtime_drops_is_no_panic_of_it_though_a_panic_has_ended_the_runtime() {
    quietly();
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    // The first one waits for ever, and the second does not begin.
    let wait = |_: u64| std::future::pending().boxed();
    let dispatcher = OnTokio::spawn_with(runtime.handle().clone(), wait);
    let monitor = dispatcher.monitor();
    let engine = by_hand(dispatcher);
    for n in 0..2 {
        engine.schedule_detached(MS, n).unwrap();
        engine.advance(MS).unwrap();
        if n == 0 {
            runtime.run(tokio::task::yield_now());
        }
    }
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _owned = runtime;
        panic_as_planned();
    }));
    assert!(ended.is_err());
    assert_eq!(settle(&monitor), (0, 0, 2));
}

#[test]
fn blocking_tasks_that_come_after_the_runtimes_end_are_dropped_and_counted() {
    let runtime = runtime();
    let (engine, monitor) = closures(OnTokio::spawn_blocking(runtime.handle().clone()));
    let fates = Fates::new(10);
    for number in 0..10 {
        let token = fates.token(number);
        engine.schedule_detached(MS, move || token.run()).unwrap();
    }
    drop(runtime);
    assert_eq!(engine.advance(MS), Ok(10));
    assert_eq!((settle(&monitor), engine.stats().panicked), ((0, 0, 10), 0));
    assert!((0..10).all(|number| fates.of(number).1 == 1 && fates.of(number).0 == 0));
}

#[test]
fn a_task_on_the_runtime_stops_the_engine() {
    let runtime = runtime();
    assert_a_task_may_stop(OnTokio::spawn_blocking(runtime.handle().clone()));
}

#[test]
fn a_task_that_runs_is_waited_for() {
    let runtime = runtime();
    let handle = || runtime.handle().clone();
    for handler in [OnTokio::spawn(handle()), OnTokio::spawn_blocking(handle())] {
        let engine = Builder::new().shards(1).build_with_handler(handler).unwrap();
        wait_for_a_slow_task("a runtime", &engine);
    }
}
