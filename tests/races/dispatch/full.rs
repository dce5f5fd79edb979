//! What happens when a pool's queue is full: each of the ways, to the last payload.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use support::mpsc;
use support::planned::{panic_as_planned, quietly};
use support::slow::Slow;
use tickless::dispatch::{Full, Pool};
// One that ThreadSanitizer can follow.
use support::patience::PATIENCE;
use support::threads::spawn;
use support::token::Fates;
use support::until::wait_until;
use tickless::{Engine, ManualClock, Task};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

/// A pool of one thread that is busy, with room for three in its queue.
fn busy_pool(full: Full) -> (Pool, Slow) {
    let pool = Pool::builder(full).threads(1).queue_bound(3).build().unwrap();
    let (slow, task) = Slow::task();
    pool.submit(Task::new(task)).unwrap();
    slow.has_begun();
    (pool, slow)
}

/// An engine driven by hand, which has `n` tasks that are due in as many milliseconds.
fn engine_with(pool: &Pool, n: u32, task: impl Fn(u32) + Clone + Send + 'static) -> Engine {
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(pool.clone()).unwrap();
    for number in 0..n {
        let task = task.clone();
        engine.schedule_detached(MS * (number + 1), move || task(number)).unwrap();
    }
    engine
}

type Log = Arc<Mutex<Vec<(u32, ThreadId)>>>;

/// Tasks that note their number and where they run.
fn noting(log: &Log) -> impl Fn(u32) + Clone + Send + 'static + use<> {
    let log = log.clone();
    move |number| log.lock().unwrap().push((number, thread::current().id()))
}

#[test]
fn what_does_not_fit_is_dropped_at_once_and_counted() {
    let (pool, slow) = busy_pool(Full::Drop);
    let fates = Fates::new(10);
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(pool.clone()).unwrap();
    for number in 0..10 {
        let token = fates.token(number);
        engine.schedule_detached(MS * (1 + number as u32), move || token.run()).unwrap();
    }
    assert_eq!(engine.advance(MS * 10), Ok(10), "all have fired");
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.running, stats.dropped), (3, 1, 7));
    let seen: Vec<_> = (0..10).map(|number| fates.of(number)).collect();
    assert_eq!(seen, [vec![(0, 0); 3], vec![(0, 1); 7]].concat(), "the last seven are gone");
    slow.release();
    pool.shutdown().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.running, stats.ran, stats.dropped), (0, 0, 4, 7));
    assert_eq!((stats.ran_inline, stats.longest_queue), (0, 3));
    assert!((0..3).all(|number| fates.of(number) == (1, 1)));
    assert_eq!((engine.stats().fired, engine.stats().pending), (10, 0));
}

#[test]
fn a_payload_whose_drop_panics_takes_no_other_with_it() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_as_planned();
        }
    }
    quietly();
    let (pool, slow) = busy_pool(Full::Drop);
    let engine = engine_with(&pool, 3, |_| ());
    for _ in 0..5 {
        let bomb = Bomb;
        engine.schedule_detached(MS * 4, move || drop(bomb)).unwrap();
    }
    assert_eq!(engine.advance(MS * 5), Ok(8));
    assert_eq!((pool.stats().dropped, engine.stats().panicked), (5, 5));
    slow.release();
    pool.shutdown().unwrap();
    assert_eq!(pool.stats().ran, 4);
}

#[test]
fn what_does_not_fit_runs_on_the_reaper_in_order() {
    let (pool, slow) = busy_pool(Full::RunInline);
    let log = Log::default();
    let engine = engine_with(&pool, 10, noting(&log));
    assert_eq!(engine.advance(MS * 10), Ok(10));
    let here = thread::current().id();
    let expected: Vec<_> = (3..10).map(|number| (number, here)).collect();
    assert_eq!(*log.lock().unwrap(), expected);
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.running, stats.ran_inline), (3, 1, 7));
    slow.release();
    pool.shutdown().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.ran, stats.ran_inline, stats.dropped, stats.longest_queue), (4, 7, 0, 3));
    let log = log.lock().unwrap();
    assert!(log[7..].iter().map(|(number, _)| *number).eq(0..3));
    assert!(log[7..].iter().all(|(_, thread)| *thread != here));
}

#[test]
fn a_panic_on_the_reaper_is_the_pools_and_not_the_engines() {
    quietly();
    let (pool, slow) = busy_pool(Full::RunInline);
    let engine = engine_with(&pool, 6, |_| panic_as_planned());
    assert_eq!(engine.advance(MS * 6), Ok(6));
    assert_eq!((pool.stats().panicked, pool.stats().ran_inline), (3, 3));
    slow.release();
    pool.shutdown().unwrap();
    assert_eq!((pool.stats().panicked, pool.stats().ran), (6, 4));
    assert_eq!(engine.stats().panicked, 0);
}

#[test]
fn the_reaper_waits_for_room_and_everything_runs_on_the_pool_in_order() {
    let (pool, slow) = busy_pool(Full::Block);
    let log = Log::default();
    let engine = engine_with(&pool, 10, noting(&log));
    let reaper = {
        let engine = engine.clone();
        spawn(move || engine.advance(MS * 10).unwrap())
    };
    while pool.stats().queued < 3 {
        thread::yield_now();
    }
    // It cannot get further while the slow task goes on, however long that is.
    let stats = pool.stats();
    assert_eq!((stats.running, stats.ran, stats.longest_queue), (1, 0, 3));
    assert!(engine.stats().fired <= 4 && !reaper.is_finished());
    slow.release();
    assert_eq!(reaper.join().unwrap(), 10);
    pool.shutdown().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.ran, stats.ran_inline, stats.dropped, stats.longest_queue), (11, 0, 0, 3));
    assert!(log.lock().unwrap().iter().map(|(number, _)| *number).eq(0..10));
}

#[test]
fn a_reaper_that_waits_holds_up_no_other_shard() {
    let (pool, slow) = busy_pool(Full::Block);
    let (others_pool, clock) = (Pool::builder(Full::Block).build().unwrap(), ManualClock::new());
    let builder = Engine::builder().shards(2).manual_clock(&clock);
    // The first shard's tasks go to the pool that is busy.
    let to_first = pool.clone();
    let engine = builder.build_with_handler(move |batch: tickless::Batch<'_, Task>| {
        let is_first = thread::current().name() == Some("first");
        batch
            .for_each(|task| if is_first { &to_first } else { &others_pool }.submit(task).unwrap());
    });
    let engine = engine.unwrap();
    engine.bind_thread(0).unwrap();
    for _ in 0..10 {
        engine.schedule_detached(MS, || ()).unwrap();
    }
    engine.bind_thread(1).unwrap();
    let (sender, receiver) = mpsc::channel();
    engine.schedule_detached(MS, move || sender.send(()).unwrap()).unwrap();
    clock.advance(MS);
    let first = {
        let engine = engine.clone();
        let drive = move || engine.turn(0).unwrap().fired;
        thread::Builder::new().name("first".to_owned()).spawn(drive).unwrap()
    };
    while pool.stats().queued < 3 {
        thread::yield_now();
    }
    assert_eq!(engine.turn(1).unwrap().fired, 1);
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(()));
    assert!(!first.is_finished());
    slow.release();
    assert_eq!(first.join().unwrap(), 10);
}

#[test]
fn several_reapers_that_wait_all_get_on() {
    let (pool, slow) = busy_pool(Full::Block);
    let reapers: Vec<_> = (0..4)
        .map(|_| {
            let engine = engine_with(&pool, 50, |_| ());
            spawn(move || engine.advance(MS * 50).unwrap())
        })
        .collect();
    while pool.stats().queued < 3 {
        thread::yield_now();
    }
    slow.release();
    for reaper in reapers {
        assert_eq!(reaper.join().unwrap(), 50);
    }
    pool.shutdown().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.ran, stats.ran_inline, stats.dropped, stats.longest_queue), (201, 0, 0, 3));
}

#[test]
fn a_task_that_hands_over_to_its_own_full_pool_runs_what_does_not_fit() {
    let pool = Pool::builder(Full::Block).threads(1).queue_bound(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let inner = pool.clone();
    let task = move || {
        for n in 0..5 {
            let sender = sender.clone();
            inner.submit(Task::new(move || sender.send(n).unwrap())).unwrap();
        }
    };
    pool.submit(Task::new(task)).unwrap();
    let mut ran: Vec<u32> = receiver.into_iter().collect();
    assert_eq!(ran.pop(), Some(0), "the first one fits, and is run when the task has ended");
    assert_eq!(ran, [1, 2, 3, 4]);
    pool.shutdown().unwrap();
    assert_eq!((pool.stats().ran, pool.stats().ran_inline), (2, 4));
}

/// One task runs and a queue of four is full; the reaper has two more, for which it waits. It goes
/// on with the first one as soon as a worker has made room for that.
#[test]
fn a_reaper_that_waits_goes_on_as_soon_as_there_is_room_for_one() {
    let pool = Pool::builder(Full::Block).threads(1).queue_bound(4).build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let task = move |_| released.lock().unwrap().recv_timeout(PATIENCE).unwrap();
    let engine = engine_with(&pool, 7, task);
    let reaper = spawn({
        let engine = engine.clone();
        move || engine.advance(MS * 7)
    });
    let counts = || (pool.stats().ran, pool.stats().running, pool.stats().queued);
    for ran in 0..3 {
        wait_until("the worker has made room", || counts() == (ran, 1, 4));
        release.send(()).unwrap();
    }
    (0..4).for_each(|_| release.send(()).unwrap());
    assert_eq!(reaper.join().unwrap(), Ok(7));
    pool.shutdown().unwrap();
    assert_eq!((pool.stats().ran, pool.stats().ran_inline), (7, 0));
}
