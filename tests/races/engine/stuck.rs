//! Tasks that are stuck: somebody is told while they are, and how many there are can be read.

use std::iter;
use std::thread;
use std::time::{Duration, Instant};

use support::mpsc;
use support::patience::PATIENCE;
use tickless::{Builder, Engine, StuckTask};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

/// A task that runs until the sender is dropped, beside another timer on each shard of the engine.
fn get_stuck(engine: &Engine, shard: usize) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    engine.bind_thread(shard).unwrap();
    engine.schedule_detached(Duration::ZERO, move || _ = released.recv()).unwrap();
    engine.schedule_detached(MS, || ()).unwrap();
    release
}

fn builder() -> (Builder, mpsc::Receiver<StuckTask>) {
    let (sender, told) = mpsc::channel();
    let builder = Engine::builder().shards(2).takeover(MS).thread_name("sticky");
    // The engine may outlive the test.
    (builder.on_stuck(move |task| _ = sender.send(task.clone())), told)
}

#[test]
fn a_task_that_is_stuck_is_reported_while_it_is() {
    let (builder, told) = builder();
    let engine = builder.build().unwrap();
    for shard in [0, 1, 0] {
        let (taken_over, before) = (engine.stats().takeovers, Instant::now());
        let release = get_stuck(&engine, shard);
        // (A thread that the system does not let run for a millisecond counts as well.)
        let is_it = |task: &StuckTask| task.shard == shard && task.since >= before;
        let mut tasks = iter::repeat_with(|| told.recv_timeout(PATIENCE).unwrap());
        let task = tasks.find(is_it).unwrap();
        assert!(task.thread.starts_with("sticky-"), "{task:?}");
        assert!(task.since <= Instant::now());
        // The thread that took over may not have counted that yet.
        while engine.stats().takeovers <= taken_over {
            assert!(before.elapsed() < PATIENCE, "{}", engine.stats());
            thread::sleep(MS);
        }
        drop(release);
    }
    engine.stop().unwrap();
}

/// By the watcher's alarm, if the engine has one group of shards; or the watcher is called.
#[test]
fn a_task_that_is_stuck_is_reported_though_no_other_timer_is_pending() {
    let (builder, told) = builder();
    for builder in [builder.clone(), builder.reapers(2, 2)] {
        let engine = builder.build().unwrap();
        // The first makes the watcher. It is idle when the others begin.
        for _ in 0..4 {
            let (release, released) = mpsc::channel::<()>();
            let before = Instant::now();
            engine.schedule_detached(Duration::ZERO, move || _ = released.recv()).unwrap();
            let mut tasks = iter::repeat_with(|| told.recv_timeout(PATIENCE).unwrap());
            assert!(tasks.any(|task| task.since >= before));
            drop(release);
            engine.schedule_detached(MS * 5, || ()).unwrap();
            while !engine.is_empty() {
                assert!(before.elapsed() < PATIENCE, "{}", engine.stats());
                thread::sleep(MS);
            }
        }
        engine.stop().unwrap();
    }
}

#[test]
fn as_long_as_tasks_are_stuck_they_are_counted() {
    let (builder, told) = builder();
    let engine = builder.build().unwrap();
    assert_eq!(engine.stats().stuck, 0);
    let releases = [0, 1].map(|shard| {
        let release = get_stuck(&engine, shard);
        told.recv_timeout(PATIENCE).unwrap();
        release
    });
    let wait_for = |stuck| {
        let begun = Instant::now();
        while engine.stats().stuck != stuck {
            assert!(begun.elapsed() < PATIENCE, "{}", engine.stats());
            thread::sleep(MS);
        }
    };
    wait_for(2);
    drop(releases);
    wait_for(0);
    engine.stop().unwrap();
}

#[test]
fn a_report_that_panics_harms_nobody() {
    let (sender, told) = mpsc::channel();
    let sender = Mutex::new(sender);
    let builder = Engine::builder().shards(1).takeover(MS).on_stuck(move |task| {
        let _ = sender.lock().map(|sender| sender.send(task.shard));
        support::planned::panic_as_planned();
    });
    support::planned::quietly();
    let engine = builder.build().unwrap();
    for _ in 0..3 {
        let release = get_stuck(&engine, 0);
        assert_eq!(told.recv_timeout(PATIENCE), Ok(0));
        drop(release);
    }
    engine.stop().unwrap();
}

#[test]
fn without_takeovers_a_stuck_task_is_reported_once() {
    let (builder, told) = builder();
    for builder in [builder.clone().takeover(None), builder.spares(0)] {
        let engine = builder.build().unwrap();
        for shard in [0, 1, 1] {
            let before = Instant::now();
            let release = get_stuck(&engine, shard);
            let is_it = |task: &StuckTask| task.shard == shard && task.since >= before;
            let mut tasks = iter::repeat_with(|| told.recv_timeout(PATIENCE).unwrap());
            let first = tasks.find(is_it).unwrap();
            // (What the system keeps from running is reported too, just before the task as well as
            // at the end of it; but since another time.)
            let mut times = vec![first.since];
            while let Ok(task) = told.recv_timeout(MS * 30) {
                assert!(!is_it(&task) || !times.contains(&task.since), "once more: {task:?}");
                times.push(task.since);
            }
            // (It may be missing while the watcher looks at it, and is suspended.)
            while engine.overdue().stuck.iter().filter(|task| is_it(task)).count() != 1 {
                assert!(before.elapsed() < PATIENCE, "{:?}", engine.overdue());
            }
            drop(release);
        }
        assert_eq!(engine.stats().takeovers, 0);
        engine.stop().unwrap();
    }
}

/// The callback takes its time, between two looks.
#[test]
fn a_task_is_not_stuck_since_before_it_began() {
    let ((tell, told), (go, may_go)) = (mpsc::channel::<StuckTask>(), mpsc::channel::<()>());
    let may_go = Mutex::new(may_go);
    let builder = Engine::builder().shards(2).takeover(None).on_stuck(move |task| {
        _ = tell.send(task.clone());
        if task.shard == 0 {
            _ = may_go.lock().unwrap().recv();
        }
    });
    let engine = builder.build().unwrap();
    let first = get_stuck(&engine, 0);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap().shard, 0);
    thread::sleep(MS * 30);
    let before = Instant::now();
    let second = get_stuck(&engine, 1);
    drop(go);
    let task = told.recv_timeout(PATIENCE).unwrap();
    drop((first, second));
    assert_eq!(task.shard, 1);
    let early = before.saturating_duration_since(task.since);
    assert_eq!(early, Duration::ZERO, "it is said to have run before it was scheduled");
}

#[test]
fn a_task_that_was_told_of_and_is_taken_over_later_is_not_told_of_again() {
    let (builder, told) = builder();
    let engine = builder.shards(1).spares(1).build().unwrap();
    let next = || told.recv_timeout(PATIENCE).unwrap();
    // The first one is taken over, and the second one only when the first one is back. When the
    // third one is told of, the second one would have been.
    let first = get_stuck(&engine, 0);
    let mut tasks = vec![next()];
    let second = get_stuck(&engine, 0);
    tasks.push(next());
    drop(first);
    while engine.stats().takeovers < 2 {
        thread::sleep(MS);
    }
    let third = get_stuck(&engine, 0);
    while engine.overdue().stuck.len() < 2 {
        thread::sleep(MS);
    }
    tasks.push(next());
    drop((second, third));
    engine.stop().unwrap();
    tasks.extend(told.try_iter());
    tasks.sort_by_key(|task| (task.since, task.thread.clone()));
    let is_twice = tasks
        .windows(2)
        .any(|two| (two[0].since, &two[0].thread) == (two[1].since, &two[1].thread));
    assert!(!is_twice, "{tasks:#?}");
}

#[test]
fn the_last_spare_thread_does_not_keep_a_stuck_task_secret() {
    for spares in [1, 2] {
        let (tell, told) = mpsc::channel::<StuckTask>();
        let builder = Engine::builder().shards(1).takeover(MS).spares(spares);
        let builder = builder.on_stuck(move |task| _ = tell.send(task.clone()));
        let engine = builder.build().unwrap();
        let releases: Vec<_> = (0..spares)
            .map(|n| {
                let release = get_stuck(&engine, 0);
                let task = told.recv_timeout(PATIENCE);
                let stuck = engine.overdue().stuck;
                assert!(task.is_ok(), "task {n} of {spares} is stuck, and not told of: {stuck:?}");
                release
            })
            .collect();
        drop(releases);
    }
}
