//! Tasks of a pool that turn on what runs them: nobody waits for himself, and nothing is lost.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::slow::Slow;
use support::threads::spawn;
use tickless::dispatch::{Full, Pool, ShutdownError};
use tickless::{Batch, Builder, Driver, Engine, StopError, Task, TurnError};

fn pool(full: Full, threads: usize, queue_bound: usize) -> Pool {
    Pool::builder(full).threads(threads).queue_bound(queue_bound).build().unwrap()
}

fn with_threads(pool: Pool, shards: usize) -> Engine {
    Engine::builder().shards(shards).build_with_handler(pool).unwrap()
}

/// Waits until somebody waits for room in the pool, or may at any moment.
fn is_full(pool: &Pool, bound: usize) {
    while pool.stats().queued < bound {
        thread::yield_now();
    }
}

#[test]
fn an_engine_that_is_dropped_inside_its_own_task_lets_its_handler_go() {
    for driver_shards in [1, 3] {
        let (sender, receiver) = mpsc::channel();
        let handler = move |batch: Batch<'_, Task>| {
            let _owned = &sender;
            batch.for_each(Task::run);
            sender.send(()).unwrap();
        };
        let engine = Builder::new().shards(driver_shards).build_with_handler(handler).unwrap();
        let last = engine.clone();
        let (go, gone) = mpsc::channel::<()>();
        let task = move || {
            gone.recv().unwrap();
            drop(last);
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        drop(engine);
        go.send(()).unwrap();
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(()));
        // This thread still has its part of the engine.
        assert_eq!(receiver.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}

#[test]
fn a_pool_cannot_be_shut_down_by_its_own_task_wherever_that_runs() {
    let pool = pool(Full::RunInline, 1, 1);
    let (sender, receiver) = mpsc::channel();
    let ask = || {
        let (pool, sender) = (pool.clone(), sender.clone());
        Task::new(move || sender.send(pool.shutdown()).unwrap())
    };
    pool.submit(ask()).unwrap();
    let refused = Err(ShutdownError::InsideTask);
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(refused));
    let (slow, task) = Slow::task();
    pool.submit(Task::new(task)).unwrap();
    slow.has_begun();
    pool.submit(Task::new(|| ())).unwrap();
    pool.submit(ask()).unwrap();
    assert_eq!(receiver.try_recv(), Ok(refused), "it ran right here");
    slow.release();
    assert_eq!(pool.shutdown(), Ok(()));
}

#[test]
fn the_only_thread_of_a_pool_stops_the_engine_whose_reaper_waits_for_it() {
    let pool = pool(Full::Block, 1, 1);
    let engine = with_threads(pool.clone(), 1);
    let (sender, receiver) = mpsc::channel();
    let (of_task, of_pool) = (engine.clone(), pool.clone());
    let (all_are_in, wait) = mpsc::channel();
    // Fires first, and stops when the reaper has to wait: one is in the queue, more are due.
    let task = move || {
        wait.recv_timeout(PATIENCE).unwrap();
        is_full(&of_pool, 1);
        sender.send(of_task.stop().map(|rest| rest.len())).unwrap();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    for _ in 0..20 {
        engine.schedule_detached(Duration::ZERO, || ()).unwrap();
    }
    all_are_in.send(()).unwrap();
    let returned = receiver.recv_timeout(PATIENCE).expect("they wait for each other").unwrap();
    pool.shutdown().unwrap();
    let (stats, counted) = (pool.stats(), engine.stats());
    assert_eq!((stats.dropped, counted.fired + returned as u64), (0, 21));
    assert_eq!(stats.ran + stats.ran_inline, counted.fired, "what was due has run");
}

#[test]
fn all_threads_of_a_pool_stop_the_engine_at_once() {
    const THREADS: usize = 3;
    let pool = pool(Full::Block, THREADS, 1);
    let engine = with_threads(pool.clone(), 2);
    let ((sender, receiver), meeting) = (mpsc::channel(), Arc::new(Barrier::new(THREADS)));
    for _ in 0..THREADS {
        let (of_task, sender, meeting) = (engine.clone(), sender.clone(), meeting.clone());
        let task = move || {
            meeting.wait();
            sender.send(of_task.stop().unwrap().len()).unwrap();
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
    }
    let (mut all, mut left) = (THREADS as u64, 0);
    while engine.schedule_detached(Duration::ZERO, || ()).is_ok() {
        all += 1;
    }
    for _ in 0..THREADS {
        left += receiver.recv_timeout(PATIENCE).expect("they wait for each other") as u64;
    }
    pool.shutdown().unwrap();
    let (stats, counted) = (pool.stats(), engine.stats());
    assert_eq!(counted.fired + left, all);
    assert_eq!((stats.ran + stats.ran_inline, stats.dropped), (counted.fired, 0));
}

#[test]
fn the_only_thread_of_a_pool_runs_a_turn_while_another_waits_for_it() {
    let pool = pool(Full::Block, 1, 1);
    let builder = Engine::builder().shards(1).driver(Driver::Caller);
    let engine = builder.build_with_handler(pool.clone()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let (of_task, of_pool) = (engine.clone(), pool.clone());
    let task = move || {
        is_full(&of_pool, 1);
        sender.send(of_task.turn(0)).unwrap();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    for _ in 0..20 {
        engine.schedule_detached(Duration::ZERO, || ()).unwrap();
    }
    let driver = {
        let engine = engine.clone();
        spawn(move || {
            while engine.stats().fired < 21 {
                engine.turn(0).unwrap();
            }
        })
    };
    let turn = receiver.recv_timeout(PATIENCE).expect("they wait for each other");
    assert!(turn.is_ok(), "{turn:?}");
    driver.join().unwrap();
    pool.shutdown().unwrap();
    assert_eq!(pool.stats().ran + pool.stats().ran_inline, 21);
    engine.check().unwrap();
    assert_eq!(engine.stop().map(|rest| rest.len()), Ok(0));
    assert_eq!(engine.turn(0), Err(TurnError::Stopped));
}

#[test]
fn an_engine_dropped_by_its_own_task_on_the_pool_ends_and_the_pool_with_it() {
    for full in [Full::Block, Full::RunInline, Full::Drop] {
        let (sender, receiver) = mpsc::channel::<()>();
        let owned = sender.clone();
        let work = move |task: Task| {
            let _owned = &owned;
            task.run();
        };
        let pool = Pool::builder(full).threads(2).queue_bound(4).build_typed(work).unwrap();
        let engine = Engine::builder().shards(2).build_with_handler(pool).unwrap();
        let (last, (go, gone)) = (engine.clone(), mpsc::channel::<()>());
        let task = move || {
            gone.recv().unwrap();
            drop(last);
            drop(sender);
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        drop(engine);
        go.send(()).unwrap();
        let end = receiver.recv_timeout(PATIENCE);
        assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected), "its threads have ended");
    }
}

#[test]
fn the_last_of_a_pool_may_be_dropped_by_its_own_task() {
    let pool = pool(Full::Block, 1, 10);
    let monitor = pool.monitor();
    let (slow, task) = Slow::task();
    pool.submit(Task::new(task)).unwrap();
    slow.has_begun();
    let last = pool.clone();
    pool.submit(Task::new(move || drop(last))).unwrap();
    for _ in 0..5 {
        pool.submit(Task::new(|| ())).unwrap();
    }
    drop(pool);
    slow.release();
    while monitor.stats().ran < 7 {
        thread::yield_now();
    }
    assert_eq!(monitor.stats().queued, 0, "what was in the queue has run");
}

#[test]
fn pools_that_feed_each_other_do_not_wait_for_each_other_for_ever() {
    let pools = [pool(Full::Block, 1, 1), pool(Full::Block, 1, 1)];
    let meeting = Arc::new(Barrier::new(2));
    let (sender, receiver) = mpsc::channel();
    for (n, pool) in pools.iter().enumerate() {
        let (other, meeting, sender) = (pools[1 - n].clone(), meeting.clone(), sender.clone());
        let task = move || {
            meeting.wait();
            for _ in 0..10 {
                let sender = sender.clone();
                other.submit(Task::new(move || sender.send(()).unwrap())).unwrap();
            }
        };
        pool.submit(Task::new(task)).unwrap();
    }
    for _ in 0..20 {
        receiver.recv_timeout(PATIENCE).expect("they wait for each other");
    }
    pools.iter().for_each(|pool| pool.shutdown().unwrap());
}

#[test]
fn a_task_that_runs_on_the_reaper_cannot_stop_its_engine_as_ever() {
    let pool = pool(Full::RunInline, 1, 1);
    let engine = with_threads(pool.clone(), 1);
    let (slow, task) = Slow::task();
    pool.submit(Task::new(task)).unwrap();
    slow.has_begun();
    pool.submit(Task::new(|| ())).unwrap();
    let (sender, receiver) = mpsc::channel();
    let inner = engine.clone();
    let task = move || sender.send(inner.stop().map(|rest| rest.len())).unwrap();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Err(StopError::InsideTask)));
    slow.release();
    assert_eq!(engine.stop().map(|rest| rest.len()), Ok(0));
}
