//! An engine that a task of a real runtime serves: tokio's with and without threads, smol's.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use support::random::Random;
use support::scaled;
use tickless::future::FutureExt as _;
use tickless::{Driver, Engine, TurnError};

use crate::on_runtime::{Runs, spawn};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

fn engine(shards: usize) -> Engine {
    Engine::builder().driver(Driver::Caller).shards(shards).build().unwrap()
}

type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs `body` with an engine that tokio serves, on so many threads or on this one, until the
/// engine has stopped.
fn on_tokio(threads: usize, engine: &Engine, body: Body) {
    use tokio::runtime::Builder;
    let runtime = match threads {
        0 => Builder::new_current_thread().enable_time().build(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_time().build(),
    };
    runtime.unwrap().run(async {
        let served = spawn(engine.drive(|at| tokio::time::sleep_until(at.into())));
        spawn(body).await.unwrap();
        engine.stop().unwrap();
        assert_eq!(served.await.unwrap(), Ok(()));
    });
}

fn on_smol(engine: &Engine, body: Body) {
    smol::block_on(async {
        let served = smol::spawn(engine.drive(smol::Timer::at));
        smol::spawn(body).await;
        engine.stop().unwrap();
        assert_eq!(served.await, Ok(()));
    });
}

/// Each body, on each runtime, with one shard and with three.
fn on_each<F>(body: impl Fn(Engine) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for shards in [1, 3] {
        for threads in [0, 1, 3] {
            let engine = engine(shards);
            on_tokio(threads, &engine, Box::pin(body(engine.clone())));
        }
        let engine = engine(shards);
        on_smol(&engine, Box::pin(body(engine.clone())));
    }
}

#[test]
fn sleeps_of_all_lengths_end_and_none_is_early() {
    on_each(|engine| async move {
        let (begin, ended) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let sleeps = (0..scaled(1_000)).map(|n| {
            let (delay, ended) = (Duration::from_micros(n * 37), ended.clone());
            let sleep = engine.sleep(delay);
            async move {
                sleep.await;
                assert!(begin.elapsed() >= delay, "a sleep of {delay:?} is early");
                ended.fetch_add(1, Ordering::SeqCst);
            }
        });
        join_all(sleeps).await;
        assert_eq!(ended.load(Ordering::SeqCst), scaled(1_000));
    });
}

/// Timers come from the runtime and from threads of their own, earlier and later than those before.
#[test]
fn no_wake_up_is_lost_from_the_runtime_or_from_other_threads() {
    on_each(|engine| async move {
        let threads = (0..3).map(|seed| {
            let engine = engine.clone();
            thread::spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..scaled(200) {
                    let delay = Duration::from_micros(random.below(1_500));
                    // A wake-up that is lost leaves the thread waiting.
                    pollster::block_on(engine.sleep(delay));
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut random = Random::new(7);
        for _ in 0..scaled(200) {
            let (delay, begin) = (Duration::from_micros(random.below(1_500)), Instant::now());
            let far = engine.schedule(HOUR, || ()).unwrap();
            engine.sleep(delay).await;
            assert!(begin.elapsed() >= delay && far.cancel());
        }
        // (The runtime's thread is not needed to end these.)
        while !threads.iter().all(|thread| thread.is_finished()) {
            engine.sleep(MS).await;
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn timeouts_and_intervals_work_as_elsewhere() {
    on_each(|engine| async move {
        let begin = Instant::now();
        let elapsed = engine.timeout(3 * MS, std::future::pending::<()>()).await.unwrap_err();
        assert!(elapsed.cause().is_none() && begin.elapsed() >= 3 * MS);
        let seven = engine.entered(std::future::ready(7).timeout(HOUR)).await;
        assert_eq!(seven.unwrap(), 7);
        let mut interval = engine.interval(MS);
        let first = interval.tick().await;
        for _ in 0..5 {
            interval.tick().await;
        }
        assert!(first.elapsed() >= 5 * MS);
    });
}

/// Many timers are due at once, and after each turn a task goes on that counts. (Tokio's own
/// `yield_now` waits for the runtime's timer and sockets as well.)
#[test]
fn a_backlog_does_not_keep_other_tasks_from_running() {
    let engine = engine(1);
    let shared = engine.clone();
    let body = async move {
        let engine = shared;
        let is_over = Arc::new(AtomicBool::new(false));
        let (rounds, seen) = (Arc::new(AtomicU64::new(0)), is_over.clone());
        let counted = rounds.clone();
        let counter = spawn(async move {
            while !seen.load(Ordering::SeqCst) {
                counted.fetch_add(1, Ordering::SeqCst);
                smol::future::yield_now().await;
            }
        });
        // How far the other task had come when each was fired.
        let met = Arc::new(Mutex::new(BTreeSet::new()));
        let at = engine.now() + 5 * MS;
        for _ in 0..10_000 {
            let (met, rounds) = (met.clone(), rounds.clone());
            let note = move || _ = met.lock().unwrap().insert(rounds.load(Ordering::SeqCst));
            engine.schedule_detached(at, note).unwrap();
        }
        while engine.stats().fired < 10_000 {
            smol::future::yield_now().await;
        }
        is_over.store(true, Ordering::SeqCst);
        counter.await.unwrap();
        assert!(met.lock().unwrap().len() >= 10_000 / 256);
    };
    on_tokio(0, &engine, Box::pin(body));
}

/// Waits on a runtime that serves `engine` until so many of its timers have fired: one that was
/// left by the runtime before is due by now, but this one has to come by.
fn wait_for(runtime: &tokio::runtime::Runtime, engine: &Engine, fired: &AtomicU64, fires: u64) {
    let begun = Instant::now();
    while fired.load(Ordering::SeqCst) < fires {
        assert!(begun.elapsed() < support::patience::PATIENCE, "what was left does not fire");
        runtime.run(engine.sleep(MS));
    }
}

/// The engine's task is the runtime's, and ends with the last clone.
#[test]
fn an_engine_built_on_tokio_needs_no_other_word() {
    use tokio::runtime::{Builder, RuntimeFlavor};
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = builder.enable_all().build().unwrap();
        let engine = runtime.run(async {
            let engine = Engine::builder().shards(2).build_on_tokio().unwrap();
            let begin = Instant::now();
            spawn(engine.sleep(3 * MS)).await.unwrap();
            assert!(begin.elapsed() >= 3 * MS);
            assert_eq!(engine.drive(smol::Timer::at).await, Err(TurnError::Driven), "it is served");
            engine
        });
        let _pending = engine.schedule(HOUR, || ()).unwrap();
        let tasks = || runtime.metrics().num_alive_tasks();
        // A task may have given its answer, and still be counted.
        let few = |most| async move {
            while tasks() > most {
                tokio::task::yield_now().await;
            }
        };
        // Without the reactor a second one wakes another worker, if there is one.
        let most = match runtime.handle().runtime_flavor() {
            RuntimeFlavor::MultiThread if cfg!(not(all(target_os = "linux", not(elsewhere)))) => 2,
            _ => 1,
        };
        runtime.run(few(most));
        assert!(tasks() > 0, "none serves the engine");
        drop(engine);
        runtime.run(few(0));
    }
}

/// The runtime ends before the engine: nothing hangs, and another runtime goes on.
#[test]
fn a_runtime_that_ends_leaves_the_timers_to_the_next() {
    let engine = engine(2);
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let fired = Arc::new(AtomicU64::new(0));
    for round in 0..3 {
        let runtime = runtime();
        let served = runtime.start(engine.drive(|at| tokio::time::sleep_until(at.into())));
        let wait_for = |fires| wait_for(&runtime, &engine, &fired, fires);
        wait_for(round);
        let count = fired.clone();
        let at = engine.now() + Duration::from_millis(2);
        engine.schedule_detached(at, move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
        runtime.shutdown_timeout(Duration::from_secs(60));
        assert!(pollster::block_on(served).unwrap_err().is_cancelled());
        thread::sleep(3 * MS);
    }
    let threads = Engine::new().unwrap();
    assert_eq!(pollster::block_on(threads.drive(smol::Timer::at)), Err(TurnError::Driven));
    let last = runtime();
    let _served = last.start(engine.drive(|at| tokio::time::sleep_until(at.into())));
    wait_for(&last, &engine, &fired, 3);
    assert_eq!(fired.load(Ordering::SeqCst), 3);
}

/// Engines that are dropped while they are served, by the thread that has the last clone.
#[test]
fn an_engine_may_end_while_it_is_served() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    for round in 0..scaled(500) {
        let engine = engine(1);
        let served = runtime.start(engine.drive(|at| tokio::time::sleep_until(at.into())));
        let dropped = Arc::new(());
        let (count, again) = (dropped.clone(), engine.clone());
        engine
            .schedule_detached(Duration::from_micros(round % 3 * 400), move || drop(count))
            .unwrap();
        let other = thread::spawn(move || drop(again));
        if round % 2 == 0 {
            engine.stop().unwrap();
        }
        drop(engine);
        other.join().unwrap();
        assert_eq!(runtime.run(served).unwrap(), Ok(()));
        assert_eq!(Arc::strong_count(&dropped), 1, "nothing is left");
    }
}
