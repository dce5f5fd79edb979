//! A pool of rayon's: what is due runs there, and its panics go no further.

use std::sync::Arc;

use rayon_core::{ThreadPool, ThreadPoolBuilder};
use support::mpsc;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::slow::Slow;
use support::token::{Fates, Token};
use tickless::Engine;
use tickless::dispatch::{Monitor, OnRayon, RayonStats};

use super::runtimes::{MS, assert_a_task_may_stop, assert_waits_for_no_task, by_hand};

fn pool() -> Arc<ThreadPool> {
    Arc::new(ThreadPoolBuilder::new().num_threads(2).build().unwrap())
}

/// Waits until all that was spawned has run: so many finished, so many panicked.
fn settle(monitor: &Monitor<RayonStats>) -> (u64, u64) {
    loop {
        let RayonStats { spawned, finished, panicked, .. } = monitor.stats();
        if finished + panicked == spawned {
            return (finished, panicked);
        }
        std::thread::yield_now();
    }
}

#[test]
fn closures_run_inside_the_pool() {
    let own = pool();
    let inside = own.clone();
    for (handler, is_own) in [(OnRayon::spawn(own), true), (OnRayon::global(), false)] {
        let monitor = handler.monitor();
        let engine: Engine = by_hand(handler);
        let (sender, receiver) = mpsc::channel();
        for n in 0..50 {
            let (sender, inside) = (sender.clone(), inside.clone());
            let task = move || {
                let is_inside = inside.current_thread_index().is_some();
                sender.send((n, is_inside, rayon_core::current_thread_index().is_some())).unwrap();
            };
            engine.schedule_detached(MS, task).unwrap();
        }
        assert_eq!(engine.advance(MS), Ok(50));
        let mut all: Vec<_> = (0..50).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..50).map(|n| (n, is_own, true)).collect::<Vec<_>>());
        assert_eq!((settle(&monitor), engine.stats().panicked), ((50, 0), 0));
    }
}

#[test]
fn a_slow_task_delays_no_timer_and_no_stop() {
    let handler = OnRayon::spawn(pool());
    let monitor = handler.monitor();
    assert_waits_for_no_task(handler);
    assert_eq!(settle(&monitor), (101, 0));
}

#[test]
fn panics_are_counted_and_go_no_further() {
    quietly();
    // Without a panic handler, a panic that came to rayon would abort the process.
    let handler = OnRayon::spawn_with(pool(), |n: u64| {
        if n % 4 == 0 {
            panic_as_planned();
        }
    });
    let monitor = handler.monitor();
    let engine = by_hand(handler);
    for n in 0..40 {
        engine.schedule_detached(MS, n).unwrap();
    }
    assert_eq!(engine.advance(MS), Ok(40));
    assert_eq!((settle(&monitor), engine.stats().panicked), ((30, 10), 0));
}

#[test]
fn what_was_handed_over_runs_though_engine_and_pool_are_gone() {
    let fates = Fates::new(20);
    let own = Arc::new(ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let (slow, task) = Slow::task();
    own.spawn(task);
    slow.has_begun();
    let handler = OnRayon::spawn_with(own, |token: Token| token.run());
    let monitor = handler.monitor();
    let engine = by_hand(handler);
    for number in 0..20 {
        let delay = MS * (1 + number as u32);
        engine.schedule_detached(delay, fates.token(number)).unwrap();
    }
    assert_eq!(engine.advance(MS * 10), Ok(10));
    assert_eq!(engine.stop().unwrap().len(), 10);
    drop(engine);
    assert_eq!((monitor.stats().spawned, monitor.stats().finished), (10, 0));
    slow.release();
    assert_eq!(settle(&monitor), (10, 0));
    assert!((0..10).all(|number| fates.of(number) == (1, 1)));
    assert!((10..20).all(|number| fates.of(number) == (0, 1)));
}

#[test]
fn a_task_on_the_pool_stops_the_engine() {
    // The only thread of the pool waits for the engine, which waits for none of its tasks.
    let one = Arc::new(ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    assert_a_task_may_stop(OnRayon::spawn(one));
}

#[test]
fn a_worker_of_the_pool_may_run_the_turns() {
    let own = pool();
    let handler = OnRayon::spawn(own.clone());
    let monitor = handler.monitor();
    let engine: Engine = by_hand(handler);
    let fates = Fates::new(10);
    for number in 0..10 {
        let token = fates.token(number);
        engine.schedule_detached(MS, move || token.run()).unwrap();
    }
    assert_eq!(own.install(|| engine.advance(MS)), Ok(10));
    assert_eq!(settle(&monitor), (10, 0));
    assert!((0..10).all(|number| fates.of(number) == (1, 1)));
}
