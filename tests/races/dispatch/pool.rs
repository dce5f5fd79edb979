//! The pool: what is due runs on its threads, and however slow it is, no timer waits for it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::slow::Slow;
use tickless::dispatch::{Full, Pool, PoolBuilder, PoolError, PoolStats, SubmitReason};
// One that ThreadSanitizer can follow.
use tickless::{Builder, Due, Engine, ManualClock, Task};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

fn pool(threads: usize) -> Pool {
    Pool::builder(Full::Block).threads(threads).build().unwrap()
}

/// An engine with one shard, driven by hand, whose closures run on `pool`.
fn by_hand(pool: &Pool) -> Engine {
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    builder.build_with_handler(pool.clone()).unwrap()
}

#[test]
fn a_slow_task_delays_no_timer_of_any_shard() {
    const SHARDS: usize = 4;
    const EACH: u32 = 25;
    let pool = pool(2);
    let engine = Engine::builder().shards(SHARDS).build_with_handler(pool.clone()).unwrap();
    let (slow, task) = Slow::task();
    engine.bind_thread(0).unwrap();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    slow.has_begun();

    // Timers on every shard, that of the slow task included, while it goes on.
    let (sender, receiver) = mpsc::channel();
    for shard in 0..SHARDS {
        engine.bind_thread(shard).unwrap();
        for n in 1..=EACH {
            let (engine_of_task, sender) = (engine.clone(), sender.clone());
            let deadline = engine.now() + MS * n;
            let task = move || sender.send((shard, deadline, engine_of_task.now())).unwrap();
            engine.schedule_detached(MS * n, task).unwrap();
        }
    }
    let mut fired = [0; SHARDS];
    for _ in 0..SHARDS as u32 * EACH {
        let (shard, deadline, at) = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(at >= deadline, "{:?} early", deadline - at);
        fired[shard] += 1;
    }
    assert_eq!(fired, [EACH; SHARDS], "all have fired before the slow one ends");
    slow.release();
    assert!(engine.stop().unwrap().is_empty());
    pool.shutdown().unwrap();
    assert_eq!(pool.stats().ran, 1 + u64::from(EACH) * SHARDS as u64);
}

#[test]
fn a_slow_task_delays_no_timer_by_as_much_as_a_tick() {
    // On a clock that is moved by hand, lateness is exact: none.
    const SHARDS: usize = 3;
    let pool = pool(2);
    let builder = Engine::builder().shards(SHARDS).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(pool.clone()).unwrap();
    let (slow, task) = Slow::task();
    engine.bind_thread(0).unwrap();
    engine.schedule_detached(MS, task).unwrap();
    for n in 0..300_u32 {
        engine.bind_thread(n as usize % SHARDS).unwrap();
        engine.schedule_detached(MS * (1 + n / 3), || ()).unwrap();
    }
    assert_eq!(engine.advance(MS), Ok(4));
    slow.has_begun();
    for _ in 1..100 {
        assert_eq!(engine.advance(MS), Ok(SHARDS), "each at its tick, while the slow one goes on");
    }
    let lateness = engine.stats().lateness;
    assert_eq!((lateness.count, lateness.max), (301, Duration::ZERO));
    slow.release();
    pool.shutdown().unwrap();
    assert_eq!((pool.stats().ran, pool.stats().ran_inline), (301, 0));
}

#[test]
fn a_slow_task_holds_up_none_that_were_handed_over_with_it() {
    let pool = pool(2);
    let engine = by_hand(&pool);
    let ((slow, task), (sender, receiver)) = (Slow::task(), mpsc::channel());
    engine.schedule_detached(MS, task).unwrap();
    for n in 0..200 {
        let sender = sender.clone();
        engine.schedule_detached(MS * 2, move || sender.send(n).unwrap()).unwrap();
    }
    assert_eq!(engine.advance(MS * 2), Ok(201));
    let mut ran: Vec<_> = (0..200).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..200).collect::<Vec<_>>());
    slow.release();
}

#[test]
fn one_thread_runs_what_is_due_in_order_of_deadlines() {
    let pool = pool(1);
    let engine = by_hand(&pool);
    let log = Arc::new(Mutex::new(Vec::new()));
    for n in (0..100_u32).rev() {
        let log = log.clone();
        let task =
            move || log.lock().unwrap().push((n, thread::current().name().map(String::from)));
        engine.schedule_detached(MS * (n + 1), task).unwrap();
    }
    assert_eq!(engine.advance(MS * 100), Ok(100));
    pool.shutdown().unwrap();
    let name = Some("tickless-pool-0".to_owned());
    let expected: Vec<_> = (0..100).map(|n| (n, name.clone())).collect();
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn a_task_that_panics_is_counted_and_its_thread_goes_on() {
    quietly();
    let pool = pool(1);
    let engine = by_hand(&pool);
    for n in 0..20 {
        let task = move || {
            if n % 3 == 0 {
                panic_as_planned();
            }
        };
        engine.schedule_detached(MS, task).unwrap();
    }
    assert_eq!(engine.advance(MS), Ok(20));
    pool.shutdown().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.ran, stats.panicked, stats.running), (20, 7, 0));
    assert_eq!(engine.stats().panicked, 0, "the reaper has seen none of it");
}

#[test]
fn a_pool_for_payloads_with_deadlines_is_told_the_exact_ones() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let note = move |due: Due<u64>| seen.lock().unwrap().push((due.payload, due.deadline));
    let pool = Pool::builder(Full::Block).threads(1).build_typed(note).unwrap();
    let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler::<u64, _>(pool.clone()).unwrap();
    let start = engine.now();
    for n in 1..=5 {
        engine.schedule_detached(MS * n, u64::from(n)).unwrap();
    }
    assert_eq!(engine.advance(MS * 5), Ok(5));
    pool.shutdown().unwrap();
    let expected: Vec<_> = (1..=5).map(|n| (u64::from(n), start + MS * n)).collect();
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn one_pool_serves_several_engines() {
    let pool = pool(2);
    let engines = [by_hand(&pool), by_hand(&pool), by_hand(&pool)];
    let (sender, receiver) = mpsc::channel();
    for (n, engine) in engines.iter().enumerate() {
        let sender = sender.clone();
        engine.schedule_detached(MS, move || sender.send(n).unwrap()).unwrap();
        assert_eq!(engine.advance(MS), Ok(1));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(n));
        assert!(engine.stop().unwrap().is_empty());
    }
    pool.shutdown().unwrap();
    assert_eq!(pool.stats().ran, 3);
}

#[test]
fn a_task_on_the_pool_schedules_and_hands_further_payloads_over() {
    let pool = pool(1);
    let engine = Engine::builder().shards(1).build_with_handler(pool.clone()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let (inner, inner_pool) = (engine.clone(), pool.clone());
    let task = move || {
        let other = sender.clone();
        inner.schedule_detached(MS, move || other.send("scheduled").unwrap()).unwrap();
        inner_pool.submit(Task::new(move || sender.send("submitted").unwrap())).unwrap();
    };
    engine.schedule_detached(MS, task).unwrap();
    let mut said = [(); 2].map(|()| receiver.recv_timeout(PATIENCE).unwrap());
    said.sort_unstable();
    assert_eq!(said, ["scheduled", "submitted"]);
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let builder = || Pool::builder(Full::Block);
    for threads in [0, PoolBuilder::MAX_THREADS + 1] {
        let error = builder().threads(threads).build().unwrap_err();
        assert!(matches!(error, PoolError::Threads { threads: n } if n == threads), "{error}");
    }
    assert!(matches!(builder().queue_bound(0).build(), Err(PoolError::QueueBound)));
    let error = builder().thread_name("a\0b").build().unwrap_err();
    assert_eq!(error.to_string(), r#"a thread's name must be without NUL, got "a\0b""#);
    assert!(builder().queue_bound(usize::MAX).threads(1).build().is_ok());
}

#[test]
fn a_payload_that_is_not_taken_comes_back_and_is_not_counted() {
    let pool = Pool::builder(Full::Drop).threads(1).queue_bound(1);
    let pool = pool.build_typed(|task: Box<dyn FnOnce() + Send>| task()).unwrap();
    let (slow, task) = Slow::task();
    pool.submit(Box::new(task)).unwrap();
    slow.has_begun();
    pool.submit(Box::new(|| ())).unwrap();
    let error = pool.submit(Box::new(|| ())).unwrap_err();
    assert_eq!(error.reason(), SubmitReason::Full);
    error.into_payload()();
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.running, stats.ran, stats.dropped), (1, 1, 0, 0));
    slow.release();
    pool.shutdown().unwrap();
    let error = pool.submit(Box::new(|| ())).unwrap_err();
    assert_eq!(error.reason(), SubmitReason::ShutDown);
    let mut expected = PoolStats::default();
    (expected.ran, expected.longest_queue) = (2, 1);
    assert_eq!(pool.stats(), expected);
}
