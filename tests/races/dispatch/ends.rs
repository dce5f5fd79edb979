//! How dispatchers end: with their engine, before it and after it.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::slow::Slow;
use support::threads::spawn;
use tickless::dispatch::{Full, Pool, PoolStats};
use tickless::{Batch, Engine, ManualClock, Task};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

fn pool(full: Full, threads: usize, queue_bound: usize) -> Pool {
    Pool::builder(full).threads(threads).queue_bound(queue_bound).build().unwrap()
}

fn by_hand(pool: Pool) -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build_with_handler(pool).unwrap()
}

/// Runs `f` on a thread of its own, and answers what it answers if it ever does.
fn within_patience<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    let thread = spawn(move || sender.send(f()).unwrap());
    let result = receiver.recv_timeout(PATIENCE).expect("somebody waits for ever");
    thread.join().unwrap();
    result
}

/// Waits until somebody waits for room in the pool, or may at any moment.
fn is_full(pool: &Pool, bound: usize) {
    while pool.stats().queued < bound {
        thread::yield_now();
    }
}

// === the engine first ===

#[test]
fn stopping_the_engine_that_has_the_only_pool_waits_until_all_that_was_due_has_run() {
    let pool = pool(Full::Block, 2, 1000);
    let monitor = pool.monitor();
    let engine = by_hand(pool);
    let (slow, task) = Slow::task();
    engine.schedule_detached(MS, task).unwrap();
    for _ in 0..100 {
        engine.schedule_detached(MS, thread::yield_now).unwrap();
    }
    engine.schedule_detached(HOUR, || ()).unwrap();
    assert_eq!(engine.advance(MS), Ok(101));
    slow.has_begun();
    let stopper = {
        let engine = engine.clone();
        spawn(move || engine.stop().unwrap().len())
    };
    while monitor.stats().ran < 100 {
        thread::yield_now();
    }
    assert!(!stopper.is_finished(), "one is still running");
    slow.release();
    assert_eq!(stopper.join().unwrap(), 1, "what was not due comes back");
    let mut expected = PoolStats::default();
    (expected.ran, expected.longest_queue) = (101, monitor.stats().longest_queue);
    assert_eq!(monitor.stats(), expected);
}

#[test]
fn a_pool_that_somebody_else_has_goes_on_when_an_engine_stops() {
    let pool = pool(Full::Block, 1, 10);
    let (slow, task) = Slow::task();
    let first = by_hand(pool.clone());
    first.schedule_detached(MS, task).unwrap();
    assert_eq!(first.advance(MS), Ok(1));
    slow.has_begun();
    assert!(first.stop().unwrap().is_empty(), "it waits for nothing of the pool's");
    let second = by_hand(pool.clone());
    second.schedule_detached(MS, || ()).unwrap();
    assert_eq!(second.advance(MS), Ok(1));
    slow.release();
    pool.shutdown().unwrap();
    assert_eq!(pool.stats().ran, 2);
}

#[test]
fn a_handler_goes_when_its_engine_has_stopped_even_if_the_engine_is_kept() {
    // A thread that has used an engine keeps a part of it, and there is a clone.
    let (sender, receiver) = mpsc::channel();
    let engine = Engine::typed(move |batch: Batch<'_, u64>| {
        batch.for_each(|payload| sender.send(payload).unwrap());
    });
    let engine = engine.unwrap();
    engine.schedule_detached(MS, 7).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(7));
    engine.schedule_detached(HOUR, 8).unwrap();
    assert_eq!(engine.clone().stop().unwrap(), [8]);
    assert_eq!(receiver.recv(), Err(mpsc::RecvError), "the sender is gone");
    assert_eq!((engine.stats().fired, engine.stop().unwrap().len()), (1, 0));
}

#[test]
fn a_handler_whose_drop_panics_or_uses_its_engine_harms_nobody() {
    struct Fiend(Arc<std::sync::OnceLock<Engine<u64>>>);
    impl tickless::Handler<u64> for Fiend {
        fn fire(&self, batch: Batch<'_, u64>) {
            batch.for_each(drop);
        }
    }
    impl Drop for Fiend {
        fn drop(&mut self) {
            let engine = self.0.get().unwrap();
            assert!(engine.schedule_detached(MS, 1).unwrap_err().is_stopped());
            assert!(engine.stop().unwrap().is_empty());
            std::panic::resume_unwind(Box::new("planned"));
        }
    }
    let itself = Arc::default();
    let engine = Engine::with_handler(Fiend(Arc::clone(&itself))).unwrap();
    itself.set(engine.clone()).unwrap();
    engine.schedule_detached(HOUR, 9).unwrap();
    assert_eq!(within_patience(move || engine.stop()), Ok(vec![9]));
    assert_eq!(Arc::strong_count(&itself), 1, "the handler is gone, though it had its engine");
}

// === the pool first ===

#[test]
fn what_is_due_after_a_shutdown_is_dropped_and_counted() {
    for full in [Full::Block, Full::RunInline, Full::Drop] {
        let pool = pool(full, 2, 4);
        let engine = by_hand(pool.clone());
        let token = Arc::new(());
        for _ in 0..10 {
            let token = token.clone();
            engine.schedule_detached(MS, move || drop(token)).unwrap();
        }
        pool.shutdown().unwrap();
        assert_eq!(engine.advance(MS), Ok(10), "{full:?}");
        let mut expected = PoolStats::default();
        expected.dropped = 10;
        assert_eq!(pool.stats(), expected, "{full:?}");
        assert_eq!(Arc::strong_count(&token), 1);
    }
}

#[test]
fn a_shutdown_lets_a_reaper_go_that_waits_for_room() {
    let pool = pool(Full::Block, 1, 2);
    let engine = by_hand(pool.clone());
    let (slow, task) = Slow::task();
    pool.submit(Task::new(task)).unwrap();
    slow.has_begun();
    for _ in 0..10 {
        engine.schedule_detached(MS, || ()).unwrap();
    }
    let reaper = spawn(move || engine.advance(MS).unwrap());
    is_full(&pool, 2);
    let stopper = {
        let pool = pool.clone();
        spawn(move || pool.shutdown().unwrap())
    };
    assert_eq!(reaper.join().unwrap(), 10);
    slow.release();
    stopper.join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.ran, stats.dropped, stats.queued), (3, 8, 0));
}

#[test]
fn shutdowns_that_race_all_wait_for_the_end() {
    let pool = pool(Full::Block, 3, 100);
    let (slow, task) = Slow::task();
    pool.submit(Task::new(task)).unwrap();
    slow.has_begun();
    let stoppers = [(); 3].map(|()| {
        let pool = pool.clone();
        spawn(move || {
            pool.shutdown().unwrap();
            pool.stats().running
        })
    });
    slow.release();
    assert_eq!(stoppers.map(|stopper| stopper.join().unwrap()), [0; 3]);
}
