//! What is overdue, and which tasks are stuck, can be read by anyone while they are. (For each
//! state that a turn leaves behind, `tests/oracles/engine.rs` compares what is overdue with
//! the oracle.)

use std::thread;
use std::time::{Duration, Instant};

use support::mpsc;
use support::patience::PATIENCE;
use support::slow::Slow;
use support::threads::spawn;
use support::until::wait_until;
use tickless::dispatch::{Full, Pool};
use tickless::{Builder, Engine, ManualClock, Overdue};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// Schedules a task that runs until it is released, and so many timers that are due with it.
fn get_stuck(engine: &Engine, shard: usize, others: usize) -> Slow {
    let (slow, task) = Slow::task();
    engine.bind_thread(shard).unwrap();
    // So late that all are scheduled by then.
    let at = engine.now() + MS * 50;
    engine.schedule_detached(at, task).unwrap();
    (0..others).for_each(|_| engine.schedule_detached(at, || ()).unwrap());
    slow.has_begun();
    slow
}

/// Waits until `is_so`.
fn wait_for(engine: &Engine, is_so: impl Fn(&Overdue) -> bool) -> Overdue {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let overdue = engine.overdue();
        if is_so(&overdue) {
            return overdue;
        }
        assert!(Instant::now() < deadline, "{overdue:?}");
        thread::sleep(MS);
    }
}

/// Two shards, each with a thread of its own, that nobody takes over.
fn without_takeovers() -> Builder {
    Engine::builder().shards(2).takeover(None).thread_name("sticky")
}

#[test]
fn what_waits_behind_a_stuck_task_is_overdue() {
    let engine = without_takeovers().build().unwrap();
    assert_eq!(engine.overdue(), Overdue::default());
    // One is in hand with the task, and waits.
    let slow = get_stuck(&engine, 1, 1);
    wait_for(&engine, |overdue| overdue.shards == 1 && overdue.oldest >= MS * 20);
    // These are due later; the oldest is as before.
    engine.schedule_detached(MS, || ()).unwrap();
    thread::sleep(MS * 5);
    let before = engine.overdue().oldest;
    thread::sleep(MS * 5);
    assert!(engine.overdue().oldest >= before + MS * 5);
    assert!(engine.stats().overdue >= before + MS * 5);
    slow.release();
    wait_for(&engine, |overdue| *overdue == Overdue::default());
    engine.stop().unwrap();
}

#[test]
fn a_timer_that_was_filed_behind_a_stuck_task_is_overdue() {
    let engine = without_takeovers().build().unwrap();
    let slow = get_stuck(&engine, 0, 0);
    assert_eq!(engine.overdue().shards, 0, "the task runs: it does not wait");
    let cancelled = engine.schedule(MS, || ()).unwrap();
    thread::sleep(MS * 5);
    assert!(cancelled.cancel());
    assert_eq!(engine.overdue().oldest, Duration::ZERO, "who was cancelled does not wait");
    let at = Instant::now();
    engine.schedule_detached(MS, || ()).unwrap();
    let overdue = wait_for(&engine, |overdue| overdue.oldest >= MS * 10);
    assert!(overdue.oldest < at.elapsed());
    slow.release();
    engine.stop().unwrap();
}

#[test]
fn a_task_that_keeps_its_shard_is_stuck_until_it_returns() {
    let engine = without_takeovers().build().unwrap();
    let before = Instant::now();
    let slow = [0, 1].map(|shard| get_stuck(&engine, shard, 0));
    let mut overdue = wait_for(&engine, |overdue| overdue.stuck.len() == 2);
    overdue.stuck.sort_by_key(|task| task.shard);
    for (shard, task) in overdue.stuck.iter().enumerate() {
        assert_eq!((task.shard, &*task.thread), (shard, &*format!("sticky-{shard}")));
        assert!(task.since >= before && task.since <= Instant::now());
    }
    assert_eq!(engine.stats().stuck, 2);
    slow.into_iter().for_each(Slow::release);
    wait_for(&engine, |overdue| overdue.stuck.is_empty());
    engine.stop().unwrap();
}

#[test]
fn threads_that_look_at_once_all_see_a_stuck_task() {
    let engine = without_takeovers().build().unwrap();
    let slow = get_stuck(&engine, 0, 1);
    wait_for(&engine, |overdue| overdue.stuck.len() == 1);
    let lookers = [(); 2].map(|()| {
        let engine = engine.clone();
        spawn(move || (0..support::scaled(5_000)).all(|_| engine.overdue().stuck.len() == 1))
    });
    lookers.into_iter().for_each(|looker| assert!(looker.join().unwrap()));
    slow.release();
    engine.stop().unwrap();
}

#[test]
fn a_task_that_has_lost_its_shard_is_stuck_until_it_returns() {
    let engine = Engine::builder().shards(1).takeover(MS).spares(2).build().unwrap();
    let first = get_stuck(&engine, 0, 1);
    wait_for(&engine, |overdue| overdue.stuck.len() == 1 && overdue.shards == 0);
    let second = get_stuck(&engine, 0, 1);
    let overdue = wait_for(&engine, |overdue| overdue.stuck.len() == 2 && overdue.shards == 0);
    assert_ne!(overdue.stuck[0].thread, overdue.stuck[1].thread);
    // Nobody is left who could take the shard over.
    let third = get_stuck(&engine, 0, 1);
    wait_for(&engine, |overdue| overdue.stuck.len() == 3 && overdue.shards == 1);
    [first, second, third].into_iter().for_each(Slow::release);
    wait_for(&engine, |overdue| *overdue == Overdue::default());
    engine.stop().unwrap();
}

#[test]
fn a_task_is_stuck_also_behind_others_of_its_batch() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let (inside, hand) = (engine.clone(), clock.clone());
    let look = move || {
        assert!(inside.overdue().stuck.is_empty(), "it is seen for the first time");
        hand.advance(MS * 6);
        let overdue = inside.overdue();
        assert_eq!((overdue.oldest, overdue.shards), (MS * 6, 1), "one waits behind it");
        assert_eq!((overdue.stuck.len(), overdue.stuck[0].shard), (1, 0));
        assert_eq!(overdue.stuck[0].thread, "", "it is none of the engine's");
    };
    engine.schedule_detached(MS, || ()).unwrap();
    engine.schedule_detached(MS, look).unwrap();
    engine.schedule_detached(MS, || ()).unwrap();
    assert_eq!(engine.advance(MS), Ok(3));
    assert_eq!(engine.overdue(), Overdue::default());
}

#[test]
fn a_handler_that_waits_for_room_is_not_stuck() {
    let pool = Pool::builder(Full::Block).threads(1).queue_bound(1).build().unwrap();
    let engine = without_takeovers().build_with_handler(pool).unwrap();
    let slow = get_stuck(&engine, 0, 2);
    // What comes after it waits.
    engine.schedule_detached(MS, || ()).unwrap();
    wait_for(&engine, |overdue| overdue.oldest >= MS * 20);
    // (A reaper that is suspended on its way there is stuck until it goes on.)
    wait_for(&engine, |overdue| overdue.stuck.is_empty());
    slow.release();
    engine.stop().unwrap();
}

#[test]
fn a_stopped_engine_has_nothing_overdue() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(2).manual_clock(&clock).build().unwrap();
    for shard in [0, 1] {
        engine.bind_thread(shard).unwrap();
        engine.schedule_detached(MS, || ()).unwrap();
    }
    clock.advance(MS * 3);
    assert_eq!((engine.overdue().oldest, engine.overdue().shards), (MS * 2, 2));
    assert_eq!(engine.stop().unwrap().len(), 2);
    assert_eq!(engine.overdue(), Overdue::default());
}

/// Connections whose idle timers were moved lie in front of a timer that is due.
#[test]
fn a_timer_is_overdue_also_behind_many_that_were_moved() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let mut idle: Vec<_> = (0..5_000).map(|_| engine.schedule(MS * 10, || ()).unwrap()).collect();
    idle.iter_mut().for_each(|timer| timer.reset(HOUR).unwrap());
    engine.schedule_detached(MS * 20, || ()).unwrap();
    clock.advance(MS * 35);
    let overdue = engine.overdue();
    assert_eq!((overdue.oldest, overdue.shards), (MS * 15, 1));
}

/// What waits in hand because the pool is full is due and was not handed over.
#[test]
fn what_waits_for_room_in_a_pool_is_overdue() {
    let pool = Pool::builder(Full::Block).threads(1).queue_bound(1).build().unwrap();
    let builder = Engine::builder().shards(1).takeover(None);
    let engine = builder.build_with_handler(pool.clone()).unwrap();
    let (release, released) = mpsc::channel::<()>();
    let at = engine.now() + MS * 20;
    engine.schedule_detached(at, move || _ = released.recv()).unwrap();
    (0..10).for_each(|_| engine.schedule_detached(at, || ()).unwrap());
    wait_until("the queue is full", || pool.stats().queued == 1);
    wait_for(&engine, |overdue| overdue.shards == 1 && overdue.oldest >= MS * 20);
    let stats = engine.stats();
    drop(release);
    assert!(stats.fired < 11, "the others wait: {stats}");
}

/// Many that were moved are in the bucket that has opened, and nothing that is due.
#[test]
fn nothing_is_overdue_where_all_were_moved() {
    for many in [1_000, 3_000, 5_000] {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        let mut idle: Vec<_> =
            (0..many).map(|_| engine.schedule(MS * 10, || ()).unwrap()).collect();
        idle.iter_mut().for_each(|timer| timer.reset(HOUR).unwrap());
        clock.advance(MS * 10 + MS / 2);
        assert_eq!(engine.overdue(), Overdue::default(), "{many} were moved");
    }
}

/// Wherever the one that is due lies among them. (One thread: ThreadSanitizer has nothing to see.)
#[cfg(not(tsan))]
#[test]
fn a_timer_is_overdue_among_three_thousand_that_were_moved() {
    for before in (0..=3_000).step_by(750) {
        let clock = ManualClock::new();
        let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
        let at = engine.now() + MS * 10;
        let schedule = |_| engine.schedule(at, || ()).unwrap();
        let mut timers: Vec<_> = (0..=3_000).map(schedule).collect();
        let _due = timers.swap_remove(before);
        timers.iter_mut().for_each(|timer| timer.reset(HOUR).unwrap());
        clock.advance(MS * 15);
        let overdue = engine.overdue();
        assert_eq!((overdue.oldest, overdue.shards), (MS * 5, 1), "{before} before it");
    }
}
